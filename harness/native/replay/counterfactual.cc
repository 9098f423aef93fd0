#include "replay/counterfactual.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "zlfs/format/sealed.h"
#include "zlfs/format/superblock.h"

namespace zlfs::replay {

void CounterfactualPlayer::Begin(const Mount& mount) {
  std::vector<ZoneSpace> zones(setting_.zones, ZoneSpace{.capacity = setting_.zone_capacity});
  for (std::uint32_t i = 0; i < setting_.metadata_zones; ++i) zones[i].use = ZoneUse::kUnusable;
  if (begun_) {
    for (std::uint32_t i = setting_.metadata_zones; i < zones.size(); ++i) {
      const ZoneSpace& before = model_->allocator().zone(i);
      zones[i].written = before.written;
      zones[i].use = before.use;
    }
  }
  begun_ = true;
  std::set<std::uint64_t> there;
  for (const FileEvent& file : mount.files) there.insert(file.file);
  std::erase_if(model_->files(),
                [&there](const auto& file) { return !there.contains(file.first); });
  model_->Begin(setting_, std::move(zones));
  writers_.clear();
  recorded_freed_.clear();
  recorded_starved_.clear();
  postponed_ = 0;
  log_zones_.clear();
  ending_.clear();
  for (const FileEvent& file : mount.files) {
    if (!infeasible_ && !model_->files().contains(file.file)) LayOut(file);
  }
  laid_out_ = model_->allocator().clock();
  model_->Start();
}

// Places a file that no earlier mount of the trace wrote, in zones of its lifetime.
void CounterfactualPlayer::LayOut(const FileEvent& file) {
  Writer writer;
  writer.ask = {.subject = file.file,
                .kind = FileKind::kData,
                .cause = static_cast<std::uint8_t>(Cause::kFlush),
                .lifetime = file.lifetime};
  for (const Extent& extent : file.extents) writer.left += extent.length;
  WriteAll(&writer);
  if (writer.blocked) {
    laid_out_ = model_->allocator().clock();
    Fail(writer);
    infeasible_->cause = "files from before the recording";
  }
  if (const auto zone = model_->allocator().Leave(file.file)) {
    model_->Finish(*zone, FinishCause::kThreshold);
  }
}

std::optional<Infeasible> CounterfactualPlayer::Play(const Mount& mount, const Setting& setting) {
  setting_ = setting;
  event_ = 0;
  Begin(mount);
  for (const Event& event : mount.events) {
    if (infeasible_) return infeasible_;
    model_->Take(mount, event_);
    if (const auto* const ask = std::get_if<AskEvent>(&event)) Take(*ask);
    if (const auto* const step = std::get_if<StepEvent>(&event)) Take(*step);
    Wake();
    ++event_;
  }
  for (const auto& [id, writer] : writers_) {
    if (writer.blocked && !infeasible_) Fail(writer);
  }
  return infeasible_;
}

void CounterfactualPlayer::Fail(const Writer& writer) {
  infeasible_ = Infeasible{.event = event_,
                           .written = model_->allocator().clock() - laid_out_,
                           .cause = std::string(kCauseNames[writer.ask.cause]),
                           .asked = writer.left,
                           .space = SpaceOf(model_->allocator())};
}

void CounterfactualPlayer::Take(const AskEvent& ask) {
  if (static_cast<Cause>(ask.cause) == Cause::kGc) return;
  const auto decision = static_cast<Decision::Kind>(ask.decision);
  if (decision == Decision::Kind::kNoSpace) {
    recorded_starved_.insert(ask.subject);
  } else {
    recorded_starved_.erase(ask.subject);
  }
  Writer& writer = writers_[ask.subject];
  if (writer.blocked) {
    writer.asks.push_back(ask);
    writer.is_ask.push_back(true);
    return;
  }
  const bool again = writer.recorded_left > 0;
  const bool granted = decision == Decision::Kind::kGrant;
  const std::uint64_t head = ask.kind == FileKind::kLog ? kHeaderSize : 0;
  writer.recorded_left = ask.content - (granted ? std::min(ask.content, ask.size - head) : 0);
  if (!again) {
    writer.ask = ask;
    writer.left = ask.content;
  }
  if (writer.left > 0 && !writer.grant) Try(&writer);
}

void CounterfactualPlayer::Take(const StepEvent& event) {
  switch (static_cast<Step>(event.step)) {
    case Step::kWrote:
      if (static_cast<Cause>(event.detail) != Cause::kGc) Of(event);
      return;
    case Step::kGone:
      recorded_starved_.erase(event.subject);
      if (event.detail != 0) recorded_freed_.push_back(event.subject);
      Of(event);
      return;
    case Step::kLeft:
      recorded_starved_.erase(event.subject);
      Of(event);
      return;
    case Step::kDeleted:
      Of(event);
      return;
    case Step::kMoved:
      if (event.subject != 0) recorded_freed_.push_back(0);
      return;
    case Step::kReclaim: {
      const auto how = static_cast<Reclaiming>(event.detail);
      const bool hard = how == Reclaiming::kAll;
      postponed_ += event.subject;
      // The recorded volume committed its log because space was low, or a writer found none. At
      // this setting there may be space: the replay decides itself (Pay, MakeRoom), and frees at
      // the next sync.
      if (how == Reclaiming::kCommit || (hard && !recorded_starved_.empty())) return;
      Reclaim(hard, std::exchange(postponed_, 0));
      return;
    }
    default:  // the replay makes its own decision
      return;
  }
}

void CounterfactualPlayer::Of(const StepEvent& event) {
  Writer& writer = writers_[event.subject];
  const auto step = static_cast<Step>(event.step);
  if (writer.blocked) {
    // Later events may depend on a table: a compaction deletes its inputs after writing its tables.
    // A blocked WAL only delays its users. The replay fails if a later WAL is closed before it.
    const bool log = writer.ask.kind == FileKind::kLog;
    if (writer.starved && step == Step::kLeft && !log) Fail(writer);
    writer.steps.push_back(event);
    writer.is_ask.push_back(false);
    return;
  }
  if (step == Step::kWrote) {
    if (writer.grant) Complete(&writer);
    if (writer.recorded_left == 0) WriteAll(&writer);
  } else if (step == Step::kLeft) {
    for (const auto& [id, other] : writers_) {
      const bool logs = writer.ask.kind == FileKind::kLog && other.ask.kind == FileKind::kLog;
      if (logs && other.starved && id < event.subject) Fail(other);
    }
    const bool finish = event.detail != 0;
    if (const auto zone = model_->allocator().Leave(event.subject, finish)) {
      model_->Finish(*zone, finish ? FinishCause::kImport : FinishCause::kThreshold);
    }
    changed_ = returned_ = true;
  } else if (step == Step::kDeleted) {
    model_->Delete(event.subject);
  } else {
    model_->Gone(event.subject);
    writers_.erase(event.subject);
    changed_ = returned_ = true;
  }
}

void CounterfactualPlayer::WriteAll(Writer* writer) {
  while (writer->left > 0 && !writer->blocked) {
    Try(writer);
    if (writer->grant) Complete(writer);
  }
}

void CounterfactualPlayer::Try(Writer* writer) {
  writer->blocked = writer->starved = false;
  for (;;) {
    const Decision decision = model_->Ask(writer->ask, writer->left);
    if (decision.kind == Decision::Kind::kGrant) {
      if (writer->ask.kind == FileKind::kLog) log_zones_.insert(decision.zone);
      writer->grant = decision;
      return;
    }
    if (decision.kind == Decision::Kind::kFinish) {
      model_->Finish(decision.zone, FinishCause::kActiveLimit);
      continue;
    }
    const bool starved = decision.kind == Decision::Kind::kNoSpace;
    if (starved ? MakeRoom() : Settle()) continue;
    writer->blocked = some_blocked_ = true;
    writer->starved = starved;
    return;
  }
}

void CounterfactualPlayer::Complete(Writer* writer) {
  const Decision grant = *std::exchange(writer->grant, std::nullopt);
  writer->left -= model_->Write(writer->ask, grant, writer->left);
  changed_ = true;
  if (model_->allocator().LowSpace()) Pay(grant.size);
}

// Completes all writes in progress. Returns whether there were any.
bool CounterfactualPlayer::Settle() {
  bool some = false;
  for (auto& [id, writer] : writers_) {
    if (!writer.grant) continue;
    Complete(&writer);
    some = true;
  }
  return some;
}

void CounterfactualPlayer::Wake() {
  if (!some_blocked_) changed_ = returned_ = false;  // no writer is blocked
  while (std::exchange(changed_, false) && !infeasible_) {
    const bool returned = std::exchange(returned_, false);
    some_blocked_ = false;
    for (auto& [id, writer] : writers_) {
      if (!writer.blocked) continue;
      if (writer.starved && !returned) {
        some_blocked_ = true;
        continue;
      }
      Try(&writer);
      if (writer.blocked) continue;
      const auto asks = std::exchange(writer.asks, {});
      const auto steps = std::exchange(writer.steps, {});
      auto ask = asks.begin();
      auto step = steps.begin();
      const std::uint64_t file = id;
      for (const bool is_ask : std::exchange(writer.is_ask, {})) {
        if (is_ask) Take(*ask++);
        if (!is_ask) Of(*step++);
      }
      changed_ = true;
      if (!writers_.contains(file)) break;  // the writer is erased: the loop's iterator is invalid
    }
  }
}

// Frees the oldest `entries` files that the recorded volume freed, and resets empty zones.
void CounterfactualPlayer::Reclaim(bool hard, std::uint64_t entries) {
  std::set<std::uint64_t> files = {0};  // 0: moved by the collector and already committed
  for (; entries > 0 && !recorded_freed_.empty(); --entries) {
    files.insert(recorded_freed_.front());
    recorded_freed_.pop_front();
  }
  std::deque<Model::Freed> later;
  for (Model::Freed& freed : model_->freed()) {
    if (files.contains(freed.file)) {
      model_->Free(freed);
    } else {
      later.push_back(std::move(freed));
    }
  }
  model_->freed() = std::move(later);
  ResetZones(hard, hard);
}

bool CounterfactualPlayer::Commit(bool hard) {
  for (const Model::Freed& freed : std::exchange(model_->freed(), {})) model_->Free(freed);
  return ResetZones(hard, true);
}

bool CounterfactualPlayer::ResetZones(bool hard, bool logs) {
  bool some = false;
  for (const std::uint32_t zone : model_->allocator().Resettable(hard)) {
    // A log zone's end must be committed before its reset. The next commit resets the zone.
    if (!logs && log_zones_.contains(zone) && ending_.insert(zone).second) continue;
    log_zones_.erase(zone);
    ending_.erase(zone);
    model_->allocator().BeginReset(zone);
    model_->Reset(zone);
    some = true;
  }
  if (some) changed_ = returned_ = true;
  return some;
}

void CounterfactualPlayer::Pay(std::uint64_t written) {
  if (!setting_.policy.gc || collecting_) return;
  if (!model_->victim()) {
    Commit(false);
    next_run_ = 0;
    if (!model_->allocator().LowSpace() || !model_->ChooseVictim()) return;
  }
  Collect(PriceOf(model_->allocator().zone(*model_->victim()), written));
}

bool CounterfactualPlayer::Collect(std::uint64_t bytes) {
  collecting_ = true;
  bool copied = true;
  while (copied && next_run_ < model_->runs().size()) {
    const Run& run = model_->runs()[next_run_];
    const std::uint64_t size = run.end - run.begin;
    copied = Copy(next_run_);
    ++next_run_;
    if (size >= bytes) break;
    bytes -= size;
  }
  if (!copied) {
    model_->Abandon();
  } else if (next_run_ == model_->runs().size()) {
    model_->Move();
  }
  collecting_ = false;
  return copied;
}

bool CounterfactualPlayer::Copy(std::size_t run) {
  AskEvent ask{.subject = run,
               .cause = static_cast<std::uint8_t>(Cause::kGc),
               .lifetime = model_->runs()[run].file->lifetime};
  const auto& [file, begin, end, to] = model_->runs()[run];
  for (const Extent& extent : Part(file->extents, begin, end)) ask.content += extent.length;
  while (ask.content > 0) {
    const Decision decision = model_->Ask(ask, ask.content);
    if (decision.kind == Decision::Kind::kGrant) {
      ask.content -= model_->Write(ask, decision, ask.content);
    } else if (decision.kind != Decision::Kind::kWait || !Settle()) {
      return false;
    }
  }
  return true;
}

bool CounterfactualPlayer::MakeRoom() {
  if (collecting_) return false;
  for (;;) {
    if (Commit(true)) return true;
    if (!setting_.policy.gc) return false;
    if (!model_->victim()) {
      next_run_ = 0;
      if (!model_->ChooseVictim()) return false;
    }
    if (!Collect(std::numeric_limits<std::uint64_t>::max())) return false;
  }
}

}  // namespace zlfs::replay
