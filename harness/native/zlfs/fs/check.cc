#include "zlfs/fs/check.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "rocksdb/env.h"
#include "zlfs/meta/recover.h"

namespace zlfs {

// Maps recovery errors to invariants. The message of an error starts with its name.
constexpr std::pair<std::string_view, int> kRefusals[] = {
    {"wrong-magic", 1},    {"newer-version", 1},  {"older-version", 1}, {"corrupt-superblock", 1},
    {"wrong-device", 1},   {"corrupt-frame", 2},  {"corrupt-size", 2},  {"corrupt-record", 3},
    {"corrupt-extent", 4}, {"corrupt-blocks", 5}, {"lost-data", 6},     {"corrupt-piece", 7},
    {"corrupt-id", 8},     {"corrupt-log", 9},    {"lost-log", 9},
};

namespace {

// Returns "/a", or "/a, /b" for a file with two names.
std::string NamesOf(const FileInfo& file) {
  std::string names = file.name;
  for (const std::string& link : file.links) names += ", " + link;
  return names;
}

// Returns whether the whole extent can be read. An extent can be as large as a zone, so this reads
// parts of it.
bool CanBeRead(ZoneIo* io, const Extent& extent) {
  constexpr std::uint64_t kPart = 1 << 20;
  const AlignedBuffer part = AllocateAligned(kPart);
  for (std::uint64_t done = 0; done < extent.length; done += kPart) {
    const std::size_t size = std::min(kPart, extent.length - done);
    if (!io->Read(extent.zone, extent.offset + done, size, part.get()).ok()) return false;
  }
  return true;
}

// Reports the ranges of a file that cannot be read. Reads only zones that are read-only or offline.
void FindLosses(ZonedDevice* device, const FileInfo& file, const std::vector<ZoneInfo>& zones,
                std::vector<Violation>* violations) {
  ZoneIo io(device);
  std::uint64_t at = 0;
  for (const Extent& extent : file.extents) {
    const std::uint64_t begin = std::exchange(at, at + extent.length);
    const ZoneCondition condition = zones[extent.zone].condition;
    if (condition != ZoneCondition::kOffline && condition != ZoneCondition::kReadOnly) continue;
    if (CanBeRead(&io, extent)) continue;
    const bool offline = condition == ZoneCondition::kOffline;
    violations->push_back({10, NamesOf(file) + ": bytes " + std::to_string(begin) + " to " +
                                   std::to_string(at) + " lie in zone " +
                                   std::to_string(extent.zone) + ", which is " +
                                   (offline ? "offline" : "read-only and cannot be read")});
  }
}

}  // namespace

IOStatus Check(ZonedDevice* device, std::vector<Violation>* violations) {
  violations->clear();
  Recovered recovered;
  const IOStatus status = Recover(device, &recovered);
  const std::string_view message = status.getState() == nullptr ? "" : status.getState();
  for (const auto& [name, invariant] : kRefusals) {
    if (!message.starts_with(name)) continue;
    violations->push_back({invariant, std::string(message)});
    return IOStatus::OK();
  }
  if (!status.ok()) return status;
  for (const auto& [id, file] : recovered.space.files) {
    FindLosses(device, *file, recovered.zones, violations);
    if (!file->lost_zone) continue;
    violations->push_back({10, NamesOf(*file) + ": the end from byte " +
                                   std::to_string(file->size) + " on may lie in zone " +
                                   std::to_string(*file->lost_zone) + ", which cannot be read"});
  }
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    const ZoneCondition condition = recovered.zones[zone].condition;
    if (condition != ZoneCondition::kReadOnly && !recovered.unreadable_metadata.contains(zone)) {
      continue;
    }
    violations->push_back({10, "metadata zone " + std::to_string(zone) + " cannot be " +
                                   (condition == ZoneCondition::kReadOnly ? "written" : "read")});
  }
  const std::uint32_t limit = device->geometry().max_active;
  const auto active = std::ranges::count_if(recovered.zones, IsActive, &ZoneInfo::condition);
  if (limit != 0 && active > limit) {
    violations->push_back(
        {10, std::to_string(active) + " active zones, the device allows " + std::to_string(limit)});
  }
  return status;
}

std::string DumpJson(Volume* volume) {
  const Superblock& superblock = volume->superblock();
  const Geometry& geometry = volume->device()->geometry();
  const Policy& policy = superblock.policy;
  nlohmann::json dump;
  dump["schema_version"] = 1;
  dump["superblock"] = {
      {"format_version", superblock.version}, {"generation", superblock.generation},
      {"identity", superblock.identity()},    {"label", superblock.label()},
      {"block_size", superblock.block_size},  {"zone_size", superblock.zone_size},
      {"zone_count", superblock.zone_count},  {"max_active", geometry.max_active},
      {"max_open", geometry.max_open}};
  dump["policy"] = {{"finish_remaining_pct", policy.finish_remaining_pct},
                    {"finish_occupancy_pct", policy.finish_occupancy_pct},
                    {"on_active_limit", kOnActiveLimitNames[policy.on_active_limit]},
                    {"lifetimes", policy.lifetimes != 0},
                    {"max_active", policy.max_active},
                    {"gc", policy.gc != 0},
                    {"gc_start_pct", policy.gc_start_pct},
                    {"gc_victim", kVictimNames[policy.gc_victim]}};
  dump["space"] = volume->Space();
  dump["files"] = nlohmann::json::array();
  for (const FileInfo& file : volume->files().All()) {
    nlohmann::json extents = nlohmann::json::array();
    for (const Extent& extent : file.extents) {
      extents.push_back({extent.zone, extent.offset, extent.length});
    }
    dump["files"].push_back({{"id", file.id},
                             {"name", file.name},
                             {"kind", file.kind == FileKind::kLog ? "log" : "data"},
                             {"size", file.size},
                             {"modified", file.modified},
                             {"lifetime", file.lifetime},
                             {"extents", std::move(extents)}});
  }
  static constexpr const char* kUseNames[] = {"unusable", "empty",     "active",  "finishing",
                                              "full",     "resetting", "settling"};
  dump["zones"] = nlohmann::json::array();
  const std::vector<ZoneSpace> zones = volume->Zones();
  for (std::size_t i = 0; i < zones.size(); ++i) {
    const ZoneSpace& zone = zones[i];
    dump["zones"].push_back(
        {{"zone", i},
         {"use", i < kMetadataZones ? "metadata" : kUseNames[static_cast<std::size_t>(zone.use)]},
         {"capacity", zone.capacity},
         {"written", zone.written},
         {"live", zone.kept.live},
         {"pad", zone.kept.held - zone.kept.live},
         {"lifetime", zone.lifetime}});
  }
  // Names are any bytes, but JSON is UTF-8.
  return dump.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

IOStatus Import(Volume* volume, const std::string& name, const Source& next) {
  if (volume->files().Exists(name)) return IOStatus::InvalidArgument("exists", name);
  std::shared_ptr<File> file;
  RETURN_IF_ERROR(volume->files().Create(name, FileKind::kData, &file));
  // Imported data is cold: it lives longer than all other data.
  volume->writer().SetPlacement(file.get(),
                                {.cause = Cause::kImport, .lifetime = rocksdb::Env::WLTH_EXTREME});
  IOStatus status;
  for (Slice part; status.ok() && (status = next(&part)).ok() && !part.empty();) {
    status = volume->writer().Append(file.get(), part);
  }
  if (status.ok()) status = volume->writer().Sync(file.get());
  // Imported files never grow, so finish the zone instead of leaving it active.
  const IOStatus finished = volume->writer().FinishWriting(file.get(), true);
  if (status.ok()) status = finished;
  file.reset();
  // Delete a partial file to free its space.
  if (!status.ok() && volume->files().Delete(name).ok())
    volume->files().SyncNames().PermitUncheckedError();
  return status;
}

}  // namespace zlfs
