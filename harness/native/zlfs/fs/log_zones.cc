#include "zlfs/fs/log_zones.h"

#include <algorithm>

namespace zlfs {

void LogZones::Join(File* file, std::uint32_t zone) {
  MetaLog* const log = state_->log.get();
  const auto [entry, added] = zones_.try_emplace(zone);
  LogZone& joined = entry->second;
  if (added) {
    joined.offset = state_->allocator->zone(zone).written;
    joined.position = log->Append(LogZoneRecord{.zone = zone, .offset = joined.offset});
  }
  file->position = std::max(file->position, joined.position);
  if (!file->deleted && file->log_zones.insert(zone).second) {
    file->position = log->Append(LogFileRecord{.file = file->id, .zone = zone});
  }
}

void LogZones::End(std::uint32_t zone) {
  const auto entry = zones_.find(zone);
  if (entry == zones_.end() || entry->second.end != 0) return;
  for (const auto& [id, file] : state_->space.files) {
    if (file->deleted || file->size == 0 || !file->log_zones.contains(zone)) continue;
    file->position = state_->log->Append(RecordOf(*file, 0));
  }
  entry->second.end = state_->log->Append(LogZoneEndRecord{.zone = zone});
}

bool LogZones::Ended(std::uint32_t zone) {
  const auto entry = zones_.find(zone);
  if (entry == zones_.end()) return true;
  End(zone);
  return entry->second.end <= state_->log->durable();
}

void LogZones::Forget(std::uint32_t zone) {
  if (zones_.erase(zone) == 0) return;
  for (const auto& [id, file] : state_->space.files) file->log_zones.erase(zone);
}

void LogZones::Describe(std::vector<Record>* records) const {
  for (const auto& [zone, log_zone] : zones_) {
    if (log_zone.end == 0) {
      records->emplace_back(LogZoneRecord{.zone = zone, .offset = log_zone.offset});
    }
  }
  for (const auto& [name, file] : state_->space.names) {
    if (name != file->name) continue;  // a link
    for (const std::uint32_t zone : file->log_zones) {
      const auto entry = zones_.find(zone);  // a repair can find a WAL whose zone was reset
      if (entry == zones_.end() || entry->second.end != 0) continue;
      records->emplace_back(LogFileRecord{.file = file->id, .zone = zone});
    }
  }
}

}  // namespace zlfs
