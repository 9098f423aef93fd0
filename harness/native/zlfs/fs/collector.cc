#include "zlfs/fs/collector.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <thread>
#include <utility>

namespace zlfs {
namespace {

// Polling interval of a writer that waits for readers to unpin zones without live data.
constexpr auto kLook = std::chrono::milliseconds(1);
// Zones in which the collector tries to write a copy.
constexpr int kCopyAttempts = 4;

}  // namespace

void Collector::Pay(std::uint64_t written) {
  if (!state_->superblock.policy.gc) return;
  const std::unique_lock lock(collecting_, std::try_to_lock);
  if (!lock.owns_lock() || (!victim_ && (!LowAfterReclaim() || !ChooseVictim()))) return;
  std::unique_lock state(state_->mutex);
  const ZoneSpace victim = state_->allocator->zone(*victim_);
  state.unlock();
  // Ignore errors: the writer's own bytes are written. A later write that needs space reports it.
  Collect(PriceOf(victim, written)).PermitUncheckedError();
}

IOStatus Collector::MakeRoom() {
  const std::lock_guard lock(collecting_);
  for (;;) {
    bool reset = false;
    RETURN_IF_ERROR(reclaimer_->Reclaim(Reclaiming::kAll, &reset));
    if (reset) return IOStatus::OK();
    if (state_->superblock.policy.gc && (victim_ || ChooseVictim())) {
      const IOStatus status = Collect(std::numeric_limits<std::uint64_t>::max());
      // CopyRun excludes a victim that cannot be read, so the next choice is another zone.
      if (!status.ok() && !status.IsAborted()) return status;
      continue;
    }
    {
      const std::lock_guard state(state_->mutex);
      if (state_->allocator->Resettable(true).empty()) break;
    }
    // Readers pin the zones, and do not signal when they unpin them.
    std::this_thread::sleep_for(kLook);
  }
  return IOStatus::NoSpace("no-space", "nothing is left to collect");
}

bool Collector::LowAfterReclaim() {
  // The writer's next sync reports a failed commit.
  reclaimer_->Reclaim(Reclaiming::kCommit).PermitUncheckedError();
  const std::lock_guard state(state_->mutex);
  return state_->allocator->LowSpace();
}

bool Collector::ChooseVictim() {
  const std::lock_guard state(state_->mutex);
  victim_ = state_->allocator->PickVictim();
  if (!victim_) return false;
  state_->trace.Add(Step::kVictim, *victim_);
  runs_ = RunsIn(state_->space.files, *victim_);
  next_run_ = 0;
  return true;
}

IOStatus Collector::Collect(std::uint64_t bytes) {
  const auto began = std::chrono::steady_clock::now();
  const IOStatus status = CopyRuns(bytes);
  time_ = time_.load() + (std::chrono::steady_clock::now() - began);
  return status;
}

IOStatus Collector::CopyRuns(std::uint64_t bytes) {
  IOStatus status;
  for (; status.ok() && bytes > 0 && next_run_ < runs_.size(); ++next_run_) {
    Run& run = runs_[next_run_];
    status = CopyRun(&run);
    bytes -= std::min(bytes, run.end - run.begin);
  }
  if (status.ok() && next_run_ == runs_.size()) status = MoveRuns();
  if (status.ok()) return status;
  const std::lock_guard state(state_->mutex);
  for (const Run& run : runs_) reclaimer_->Free(run.to);
  state_->trace.Add(Step::kAbandoned, 0);
  runs_.clear();
  victim_.reset();
  return status;
}

IOStatus Collector::CopyRun(Run* run) {
  if (run_buffer_ == nullptr) run_buffer_ = AllocateAligned(kRunBytes);
  const std::shared_ptr<const ExtentMap> map = reader_->Map(run->file.get());
  // If the file was deleted in the meantime, copy nothing.
  const std::size_t filled = map->size == 0 ? 0 : run->end - run->begin;
  if (!reader_->ReadExtents(*map, run->begin, filled, run_buffer_.get()).ok()) {
    const std::lock_guard state(state_->mutex);
    state_->allocator->Unreadable(*victim_);
    state_->trace.Add(Step::kTrouble, *victim_);
    return IOStatus::Aborted("unreadable-victim");
  }
  const std::size_t size = RoundUp(filled, state_->io.geometry().block_size);
  std::memset(run_buffer_.get() + filled, 0, size - filled);
  int failures = 0;
  for (std::size_t done = 0; done < size;) {
    std::unique_lock state(state_->mutex);
    const Decision grant = commands_->Allocate(
        &state,
        {.placement = {.cause = Cause::kGc, .lifetime = run->file->lifetime}, .size = size - done},
        next_run_, FileKind::kData, filled - done);
    state.unlock();
    if (grant.kind != Decision::Kind::kGrant) {
      if (reclaimer_->Drain()) continue;
      return IOStatus::NoSpace("no-space", "to collect");
    }
    const std::uint64_t content = std::min<std::uint64_t>(grant.size, filled - done);
    const IOStatus status =
        commands_->Write(grant, Cause::kGc, next_run_, run_buffer_.get() + done, content, nullptr,
                         [run](const Extent& extent) { run->to.push_back(extent); });
    if (status.ok()) done += grant.size;
    if (!status.ok() && !status.IsAborted() && ++failures == kCopyAttempts) return status;
  }
  return IOStatus::OK();
}

IOStatus Collector::MoveRuns() {
  const auto lives = [this](const Run& run) { return table_->Has(*run.file); };
  std::unique_lock state(state_->mutex);
  const bool moves = std::ranges::any_of(runs_, lives);
  state.unlock();
  // The original may already be durable, so the copy must be durable before a record refers to it.
  if (moves) RETURN_IF_ERROR(state_->io.Flush());
  state.lock();
  std::map<std::uint64_t, std::pair<File*, std::uint64_t>> moved;  // id -> first byte that moved
  std::vector<Extent> garbage;
  for (const Run& run : runs_) {
    File* const file = run.file.get();
    if (!lives(run)) {
      reclaimer_->Free(run.to);  // the file was deleted, which already freed its old extents
      continue;
    }
    for (const Extent& extent : run.Replace()) garbage.push_back(extent);
    moved.try_emplace(file->id, file, run.begin);
  }
  for (const auto& [id, change] : moved) {
    File* const file = change.first;
    // Copies of recorded and unrecorded bytes may share a block, so record both. A piece does not
    // describe the bytes before it, so the record of a log file covers the whole file.
    const std::uint64_t known = file->kind == FileKind::kLog ? 0 : file->recorded;
    table_->RecordFrom(file, std::min(known, change.second));
    file->ForgetMap();
  }
  if (!moved.empty()) ++collected_zones_;
  state_->trace.Add(Step::kMoved, garbage.empty() ? 0 : 1);
  if (!garbage.empty()) reclaimer_->FreeLater(std::move(garbage));
  runs_.clear();
  victim_.reset();
  return IOStatus::OK();
}

}  // namespace zlfs
