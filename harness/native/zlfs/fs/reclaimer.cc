#include "zlfs/fs/reclaimer.h"

#include <mutex>
#include <utility>

namespace zlfs {

Reclaimer::Reclaimer(VolumeState* state, ZoneCommands* commands, LogZones* log_zones,
                     const FileReader* reader)
    : state_(state),
      commands_(commands),
      log_zones_(log_zones),
      reader_(reader),
      resets_(state->device->geometry().waits) {}

IOStatus Reclaimer::Commit(std::uint64_t position) {
  RETURN_IF_ERROR(state_->log->Commit(position));
  return Reclaim(Reclaiming::kDurable);
}

IOStatus Reclaimer::Reclaim(Reclaiming how, bool* reset) {
  const bool hard = how == Reclaiming::kAll;
  // A log zone needs two commits: the first makes its last content garbage, the second makes the
  // record of its end durable.
  constexpr int kCommits = 2;
  for (int commits = 0;; ++commits) {
    if (hard) commands_->AwaitFinishes();  // a zone must be full before its reset
    std::vector<std::uint32_t> zones;
    std::unique_lock lock(state_->mutex);
    const std::uint64_t durable = state_->log->durable();
    auto freed = freed_.begin();
    for (; freed != freed_.end() && freed->position <= durable; ++freed) Free(freed->extents, true);
    state_->trace.Add(Step::kReclaim, static_cast<std::uint64_t>(freed - freed_.begin()),
                      static_cast<std::uint64_t>(how));
    freed_.erase(freed_.begin(), freed);
    bool needs_commit = !freed_.empty();
    for (const std::uint32_t zone : state_->allocator->Resettable(hard)) {
      if (reader_->Pinned(zone)) continue;
      if (!log_zones_->Ended(zone)) {
        needs_commit = true;
        continue;
      }
      state_->allocator->BeginReset(zone);
      state_->trace.Add(Step::kReset, zone);
      zones.push_back(zone);
    }
    const std::uint64_t position = state_->log->appended();
    lock.unlock();
    for (const std::uint32_t zone : zones) {
      resets_.Add([this, zone] { commands_->Reset(zone); });
    }
    // A caller that needs room also waits for zones that earlier commits freed.
    const bool waited = hard && resets_.Drain();
    if (reset != nullptr) *reset = *reset || waited || !zones.empty();
    const bool commit = how != Reclaiming::kDurable && needs_commit && commits < kCommits;
    if (!commit) return IOStatus::OK();
    RETURN_IF_ERROR(state_->log->Commit(position));
  }
}

void Reclaimer::Free(const std::vector<Extent>& extents, bool released) {
  for (const Extent& extent : extents) {
    const Kept kept = KeptBy(extent, state_->io.geometry().block_size);
    state_->allocator->Freed(extent.zone, kept, released);
  }
}

void Reclaimer::FreeLater(std::vector<Extent> extents) {
  for (const Extent& extent : extents) {
    state_->allocator->Released(extent.zone, KeptBy(extent, state_->io.geometry().block_size));
  }
  // The record that releases the extents is in the log already, so this position covers it.
  freed_.push_back({.position = state_->log->appended(), .extents = std::move(extents)});
}

}  // namespace zlfs
