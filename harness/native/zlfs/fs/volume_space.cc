// Zones at the end of their lives, and what the ledger says.

#include <pthread.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "zlfs/fs/volume.h"

namespace zlfs {

IOStatus Volume::Commit(std::uint64_t position) {
  RETURN_IF_ERROR(log_->Commit(position));
  return Reclaim(false);
}

IOStatus Volume::Reclaim(bool hard, bool* reset) {
  // Ending a log zone takes a second commit, after the one that made its last piece garbage.
  constexpr int kCommits = 2;
  for (int commits = 0;; ++commits) {
    std::vector<std::uint32_t> zones;
    bool needs_commit = false;
    std::uint64_t position;
    {
      const std::lock_guard lock(state_);
      // In the order of their positions.
      const std::uint64_t durable = log_->durable();
      auto freed = freed_.begin();
      for (; freed != freed_.end() && freed->position <= durable; ++freed) Free(freed->extents);
      trace_.Add(Step::kReclaim, static_cast<std::uint64_t>(freed - freed_.begin()), hard);
      freed_.erase(freed_.begin(), freed);
      needs_commit = !freed_.empty();
      for (const std::uint32_t zone : allocator_->Resettable(hard)) {
        if (!MayReset(zone, &needs_commit)) continue;
        BeginReset(zone);
        zones.push_back(zone);
      }
      position = log_->appended();
    }
    for (const std::uint32_t zone : zones) RETURN_IF_ERROR(ResetZone(zone));
    if (reset != nullptr) *reset = *reset || !zones.empty();
    if (!hard || !needs_commit || commits == kCommits) return IOStatus::OK();
    RETURN_IF_ERROR(log_->Commit(position));
  }
}

void Volume::Free(const std::vector<Extent>& extents) {
  for (const Extent& extent : extents) {
    allocator_->Freed(extent.zone, KeptBy(extent, io_.geometry().block_size));
  }
}

bool Volume::MayReset(std::uint32_t zone, bool* needs_commit) {
  if (!pins_[zone].expired()) return false;
  const auto log_zone = log_zones_.find(zone);
  if (log_zone == log_zones_.end()) return true;
  LogZone& log = log_zone->second;
  if (log.end == 0) log.end = log_->Append(LogZoneEndRecord{.zone = zone});
  if (log.end <= log_->durable()) return true;
  *needs_commit = true;
  return false;
}

void Volume::BeginReset(std::uint32_t zone) {
  allocator_->BeginReset(zone);
  trace_.Add(Step::kReset, zone);
}

IOStatus Volume::ResetZone(std::uint32_t zone) {
  ZoneLock& zone_lock = zone_locks_[zone];
  const std::lock_guard lock(zone_lock.mutex);
  const IOStatus status = io_.Reset(zone, false);
  const std::lock_guard state(state_);
  log_zones_.erase(zone);
  changed_.notify_all();
  if (!status.ok()) {
    // The device is one zone smaller, which is no reason to fail whoever gave the zone back.
    allocator_->Retire(zone);
    trace_.Add(Step::kTrouble, zone);
    return IOStatus::OK();
  }
  retired_.push_back(RetirementOf(*allocator_, zone, "reset"));
  zone_lock.last_piece = 0;
  allocator_->ResetDone(zone);
  trace_.Add(Step::kResetDone, zone);
  ++returns_;
  return IOStatus::OK();
}

IOStatus Volume::FinishZone(std::uint32_t zone, FinishCause cause) {
  const std::lock_guard lock(zone_locks_[zone].mutex);
  const ZoneSpace& space = allocator_->zone(zone);
  const IOStatus status = io_.Finish(cause, zone, space.capacity - space.written);
  const std::lock_guard state(state_);
  changed_.notify_all();
  if (!status.ok()) {
    allocator_->Retire(zone);
    trace_.Add(Step::kTrouble, zone);
    return status;
  }
  retired_.push_back(RetirementOf(*allocator_, zone, "finish"));
  allocator_->Finished(zone);
  trace_.Add(Step::kFinished, zone);
  return IOStatus::OK();
}

TotalsRecord Volume::SinceMkfs() const {
  const Totals now = totals();
  TotalsRecord all = space_.totals;
  all.collected_bytes += now.written[static_cast<std::size_t>(Cause::kGc)].payload;
  all.collected_zones += collected_zones_;
  for (const auto& finishes : now.finishes) all.finishes += finishes.count;
  all.resets += now.resets_data + now.resets_metadata;
  return all;
}

SpaceUse Volume::Space() {
  const std::lock_guard lock(state_);
  return SpaceOf(*allocator_);
}

std::vector<ZoneSpace> Volume::Zones() {
  const std::lock_guard lock(state_);
  return allocator_->zones();
}

void Volume::KeepLedger(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "zlfs-ledger");  // so that its cost can be measured
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  const auto stopped = [&stop] { return stop.stop_requested(); };
  while (!never.wait_for(lock, stop, std::chrono::seconds(1), stopped)) {
    ledger_ << LedgerLine("sample") << std::endl;
  }
}

std::string Volume::LedgerLine(const char* event) {
  const Totals now = totals();
  const std::lock_guard lock(state_);
  nlohmann::json line =
      LedgerCounts(now, collected_zones_, SpaceOf(*allocator_), std::exchange(retired_, {}));
  line["t"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  line["mounted"] = mounted_;
  line["identity"] = superblock_.identity();
  line["event"] = event;
  if (event == std::string_view("close")) line["zones"] = LedgerZones(*allocator_);
  return line.dump();
}

}  // namespace zlfs
