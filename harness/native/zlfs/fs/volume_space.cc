// Zones at the end of their lives, and what the ledger says.

#include <pthread.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "zlfs/fs/volume.h"

namespace zlfs {

IOStatus Volume::Commit(std::uint64_t position) {
  RETURN_IF_ERROR(log_->Commit(position));
  return freed_waiting_.load(std::memory_order_relaxed) ? Reclaim(false) : IOStatus::OK();
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
      std::vector<Freed> later;
      for (Freed& freed : freed_) {
        if (freed.position > log_->durable()) {
          needs_commit = true;
          later.push_back(std::move(freed));
          continue;
        }
        Free(freed.extents);
      }
      freed_ = std::move(later);
      bool waiting = needs_commit;
      for (const std::uint32_t zone : allocator_->Resettable(hard)) {
        if (MayReset(zone, &needs_commit)) {
          allocator_->BeginReset(zone);
          zones.push_back(zone);
        } else {
          waiting = true;
        }
      }
      freed_waiting_ = waiting;
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

void Volume::Retire(std::uint32_t zone, const char* event) {
  const ZoneSpace& space = allocator_->zone(zone);
  retired_.push_back({.zone = zone,
                      .event = event,
                      .written = space.written,
                      .live = space.kept.live,
                      .age = allocator_->clock() - space.opened});
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
    return IOStatus::OK();
  }
  Retire(zone, "reset");
  zone_lock.last_piece = 0;
  allocator_->ResetDone(zone);
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
    return status;
  }
  Retire(zone, "finish");
  allocator_->Finished(zone);
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
  SpaceUse use;
  const std::lock_guard lock(state_);
  for (std::uint32_t i = kMetadataZones; i < allocator_->zone_count(); ++i) {
    const ZoneSpace& zone = allocator_->zone(i);
    if (zone.use == ZoneUse::kUnusable && zone.kept.live == 0) continue;
    use.capacity += zone.capacity;
    use.live += zone.kept.live;
    use.pad += zone.kept.held - zone.kept.live;
    if (zone.use == ZoneUse::kUnusable) {
      use.given_up += zone.capacity - zone.kept.held;
      continue;
    }
    use.garbage += zone.written - zone.kept.held;
    (zone.use == ZoneUse::kFull ? use.given_up : use.free) += zone.capacity - zone.written;
  }
  use.kept = allocator_->kept_zones() * allocator_->zone(kMetadataZones).capacity;
  use.empty_zones = allocator_->empty_zones();
  use.active_zones = allocator_->active_zones();
  return use;
}

std::map<std::string, std::uint64_t> Named(const SpaceUse& space) {
  return {{"capacity", space.capacity},       {"live", space.live},
          {"garbage", space.garbage},         {"pad", space.pad},
          {"given_up", space.given_up},       {"free", space.free},
          {"empty_zones", space.empty_zones}, {"active_zones", space.active_zones}};
}

std::vector<ZoneSpace> Volume::Zones() {
  std::vector<ZoneSpace> zones;
  const std::lock_guard lock(state_);
  for (std::uint32_t i = 0; i < allocator_->zone_count(); ++i) zones.push_back(allocator_->zone(i));
  return zones;
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
  nlohmann::json line;
  line["t"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  line["mounted"] = mounted_;
  line["identity"] = superblock_.identity();
  line["event"] = event;
  for (std::size_t i = 0; i < kCauses; ++i) {
    line["written"][std::string(kCauseNames[i])] = {{"payload", now.written[i].payload},
                                                    {"pad", now.written[i].pad}};
  }
  for (std::size_t i = 0; i < kFinishCauses; ++i) {
    line["finishes"][std::string(kFinishNames[i])] = {{"count", now.finishes[i].count},
                                                      {"given_up", now.finishes[i].given_up}};
  }
  line["resets"] = {{"data", now.resets_data}, {"metadata", now.resets_metadata}};
  line["flushes"] = now.flushes;
  line["collected_zones"] = collected_zones_.load();
  line["space"] = Named(Space());
  line["retired"] = nlohmann::json::array();
  {
    const std::lock_guard lock(state_);
    for (const Retirement& end : std::exchange(retired_, {})) {
      line["retired"].push_back({end.zone, end.event, end.written, end.live, end.age});
    }
  }
  if (event == std::string_view("close")) {
    const std::vector<ZoneSpace> zones = Zones();
    line["zones"] = nlohmann::json::array();
    for (std::size_t i = kMetadataZones; i < zones.size(); ++i) {
      const ZoneSpace& zone = zones[i];
      if (zone.use == ZoneUse::kEmpty || zone.use == ZoneUse::kUnusable) continue;
      line["zones"].push_back({i, zone.written, zone.kept.live, zone.kept.held - zone.kept.live,
                               zone.use == ZoneUse::kFull ? "full" : "active"});
    }
  }
  return line.dump();
}

}  // namespace zlfs
