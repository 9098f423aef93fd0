// The commands that change nothing, and work beside a running database.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "zlfs/fs/check.h"
#include "zlfs/tool/commands.h"

namespace zlfs::tool {
namespace {

using Json = nlohmann::ordered_json;

IOStatus MountToRead(const std::string& device, std::unique_ptr<Volume>* volume) {
  std::unique_ptr<ZonedDevice> opened;
  const IOStatus status = OpenSpec(device, Access::kReadOnly, nullptr, &opened);
  if (!status.ok()) return status;
  return Volume::Mount(std::move(opened), {.read_only = true, .policy = {}, .ledger_path = {}},
                       volume);
}

}  // namespace

IOStatus RunDf(Arguments* arguments) {
  std::unique_ptr<Volume> volume;
  std::vector<ZoneInfo> zones;
  IOStatus status = MountToRead(arguments->device, &volume);
  if (status.ok()) {
    status = volume->device()->Report(0, volume->device()->geometry().zone_count, &zones);
  }
  if (!status.ok()) return status;
  std::uint64_t capacity = 0;
  std::uint64_t empty = 0;
  std::uint64_t active = 0;
  std::uint64_t full = 0;
  for (const ZoneInfo& zone : zones) {
    capacity += zone.condition == ZoneCondition::kOffline ? 0 : zone.capacity;
    empty += zone.condition == ZoneCondition::kEmpty ? 1 : 0;
    active += IsActive(zone.condition) ? 1 : 0;
    full += zone.condition == ZoneCondition::kFull ? 1 : 0;
  }
  const Geometry& geometry = volume->device()->geometry();
  const Superblock& superblock = volume->superblock();
  const SpaceUse space = volume->Space();
  const TotalsRecord totals = volume->SinceMkfs();
  const std::uint64_t taken = space.live + space.pad + space.kept;
  const Json df = {
      {"schema_version", 1},
      {"identity", superblock.identity},
      {"label", superblock.label},
      {"block_size", geometry.block_size},
      {"zone_size", geometry.zone_size},
      {"zone_capacity", zones[kMetadataZones].capacity},
      {"zones", geometry.zone_count},
      {"capacity_bytes", capacity},
      {"metadata_bytes", zones[0].capacity + zones[1].capacity},
      {"zones_empty", empty},
      {"zones_active", active},
      {"zones_full", full},
      {"free_bytes", space.capacity - std::min(space.capacity, taken)},
      {"live_bytes", space.live},
      {"garbage_bytes", space.garbage},
      {"pad_bytes", space.pad},
      {"reserve_bytes", space.kept},
      {"files", volume->Files().size()},
      {"max_active", geometry.max_active},
      {"finish_remaining_pct", superblock.policy.finish_remaining_pct},
      {"finish_occupancy_pct", superblock.policy.finish_occupancy_pct()},
      {"gc",
       {{"copied_bytes", totals.collected_bytes}, {"zones_reclaimed", totals.collected_zones}}},
      {"finishes", totals.finishes},
      {"resets", totals.resets}};
  if (arguments->format == "json") {
    std::puts(df.dump().c_str());
    return status;
  }
  for (const auto& [name, value] : df.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::printf("%-22s %s\n", name.c_str(), text.c_str());
  }
  return status;
}

IOStatus RunList(Arguments* arguments) {
  std::unique_ptr<Volume> volume;
  const IOStatus status = MountToRead(arguments->device, &volume);
  if (!status.ok()) return status;
  const bool table = arguments->format == "table";
  Json files = Json::array();
  for (const FileInfo& file : volume->Files()) {
    if (table) std::printf("%15" PRIu64 "  %s\n", file.size, file.name.c_str());
    files.push_back({{"name", file.name},
                     {"size", file.size},
                     {"extents", file.extents.size()},
                     {"modified", file.modified}});
  }
  if (!table) std::puts(Json({{"schema_version", 1}, {"files", files}}).dump().c_str());
  return status;
}

IOStatus RunDump(Arguments* arguments) {
  std::unique_ptr<Volume> volume;
  const IOStatus status = MountToRead(arguments->device, &volume);
  if (status.ok()) std::puts(DumpJson(volume.get()).c_str());
  return status;
}

IOStatus RunFsck(Arguments* arguments) {
  std::unique_ptr<ZonedDevice> device;
  std::vector<Violation> found;
  IOStatus status = OpenSpec(arguments->device, Access::kReadOnly, nullptr, &device);
  if (status.ok()) status = Check(device.get(), &found);
  if (!status.ok()) return status;
  arguments->violated = !found.empty();
  const bool table = arguments->format == "table";
  Json violations = Json::array();
  for (const Violation& violation : found) {
    if (table) std::printf("%2d  %s\n", violation.invariant, violation.what.c_str());
    violations.push_back({{"invariant", violation.invariant}, {"what", violation.what}});
  }
  if (!table) std::puts(Json({{"schema_version", 1}, {"violations", violations}}).dump().c_str());
  if (table && found.empty()) std::puts("no violations");
  return status;
}

}  // namespace zlfs::tool
