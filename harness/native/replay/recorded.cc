#include "replay/recorded.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace zlfs::replay {

void RecordedPlayer::Begin(const Mount& mount) {
  Keep(mount);
  std::vector<ZoneSpace> zones;
  for (const ZoneEvent& zone : mount.zones) {
    zones.push_back({.capacity = zone.capacity,
                     .written = zone.written,
                     .use = static_cast<ZoneUse>(zone.use)});
  }
  model_->files().clear();
  for (const FileEvent& recorded_file : mount.files) {
    const auto file =
        std::make_shared<File>(FileInfo{.id = recorded_file.file, .kind = recorded_file.kind});
    file->lifetime = recorded_file.lifetime;
    for (const Extent& extent : recorded_file.extents) file->Append(extent, 0);
    model_->files()[recorded_file.file] = file;
  }
  model_->Begin(SettingOf(mount), std::move(zones));
  model_->Start();
  pending_.clear();
  finishing_.clear();
  hard_ = true;
}

// Keeps what the last mount gave up in zones that the next one finds written.
void RecordedPlayer::Keep(const Mount& next) {
  if (!std::exchange(begun_, true)) return;
  // A trace can go on with another device, or after a mount that was not recorded.
  const auto zones = static_cast<std::uint32_t>(
      std::min<std::size_t>(next.zones.size(), model_->allocator().zone_count()));
  given_up_.erase(given_up_.lower_bound(zones), given_up_.end());
  for (std::uint32_t i = 0; i < zones; ++i) {
    const ZoneSpace& zone = model_->allocator().zone(i);
    const std::uint64_t left = zone.capacity - zone.written;
    const bool full = static_cast<ZoneUse>(next.zones[i].use) == ZoneUse::kFull;
    if (!full || next.zones[i].written < zone.capacity) {
      given_up_.erase(i);
    } else if (zone.use == ZoneUse::kFull && left > 0) {
      given_up_[i] = left;
    }
  }
}

SpaceUse RecordedPlayer::space() const {
  SpaceUse space = SpaceOf(model_->allocator());
  for (const auto& [zone, bytes] : given_up_) {
    const std::uint64_t lost = std::min(bytes, space.garbage);
    space.garbage -= lost;
    space.given_up += lost;
  }
  return space;
}

IOStatus RecordedPlayer::Play(const Mount& mount) {
  Begin(mount);
  for (std::size_t i = 0; i < mount.events.size(); ++i) {
    model_->Take(mount, i);
    if (!std::visit([this](const auto& event) { return Take(event); }, mount.events[i])) {
      return IOStatus::Corruption("diverged",
                                  "event " + std::to_string(i) +
                                      ": the allocator's decision differs from the recorded one");
    }
  }
  return IOStatus::OK();
}

bool RecordedPlayer::Take(const AskEvent& ask) {
  const Decision now = model_->Ask(ask, ask.content);
  if (now.kind != static_cast<Decision::Kind>(ask.decision)) return false;
  if (now.zone != ask.zone || now.size != ask.size) return false;
  const bool copy = static_cast<Cause>(ask.cause) == Cause::kGc;
  if (now.kind == Decision::Kind::kGrant) pending_[{copy, ask.subject}] = {ask, now};
  if (now.kind == Decision::Kind::kFinish) finishing_[now.zone] = FinishCause::kActiveLimit;
  return true;
}

bool RecordedPlayer::Take(const StepEvent& event) {
  Allocator& allocator = model_->allocator();
  const auto zone = static_cast<std::uint32_t>(event.subject);
  switch (static_cast<Step>(event.step)) {
    case Step::kWrote: {
      const bool copy = static_cast<Cause>(event.detail) == Cause::kGc;
      const auto done = pending_.extract({copy, event.subject});
      if (done.empty()) return false;
      model_->Write(done.mapped().ask, done.mapped().grant, done.mapped().ask.content);
      return true;
    }
    case Step::kLeft: {
      const bool finish = event.detail != 0;
      const auto left = allocator.Leave(event.subject, finish);
      if (left) finishing_[*left] = finish ? FinishCause::kImport : FinishCause::kThreshold;
      return true;
    }
    case Step::kFinished: {
      const auto finished = finishing_.extract(zone);
      if (finished.empty()) return false;
      model_->Finish(zone, finished.mapped());
      return true;
    }
    case Step::kDeleted:
      model_->Delete(event.subject);
      return true;
    case Step::kGone: {
      const std::size_t before = model_->freed().size();
      model_->Gone(event.subject);
      return model_->freed().size() - before == event.detail;
    }
    case Step::kReclaim: {
      if (event.subject > model_->freed().size()) return false;
      for (std::uint64_t i = 0; i < event.subject; ++i) {
        model_->Free(model_->freed().front());
        model_->freed().pop_front();
      }
      hard_ = static_cast<Reclaiming>(event.detail) == Reclaiming::kAll;
      return true;
    }
    case Step::kReset: {
      const std::vector<std::uint32_t> zones = allocator.Resettable(hard_);
      if (std::find(zones.begin(), zones.end(), zone) == zones.end()) return false;
      allocator.BeginReset(zone);
      return true;
    }
    case Step::kResetDone:
      if (zone >= allocator.zone_count() || allocator.zone(zone).use != ZoneUse::kResetting) {
        return false;
      }
      model_->Reset(zone);
      given_up_.erase(zone);
      return true;
    case Step::kVictim:
      return model_->ChooseVictim() && model_->victim() == zone;
    case Step::kMoved:
      return model_->Move() == (event.subject != 0);
    case Step::kAbandoned:
      model_->Abandon();
      return true;
    case Step::kTrouble:
      return false;
  }
  return false;
}

}  // namespace zlfs::replay
