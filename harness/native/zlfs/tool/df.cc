#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "zlfs/tool/commands.h"

namespace zlfs::tool {
namespace {

using Json = nlohmann::ordered_json;

// Capacities and states of all zones as the device says now.
IOStatus AddZones(Volume* volume, Json* df) {
  const std::uint32_t count = volume->device()->geometry().zone_count;
  std::vector<ZoneInfo> zones;
  if (IOStatus status = volume->device()->Report(0, count, &zones); !status.ok()) return status;
  std::uint64_t capacity = 0;
  for (const ZoneInfo& zone : zones) {
    if (zone.condition != ZoneCondition::kOffline) capacity += zone.capacity;
  }
  const auto in = [&zones](auto is) {
    return std::count_if(zones.begin(), zones.end(),
                         [is](const ZoneInfo& zone) { return is(zone.condition); });
  };
  df->update({{"zone_capacity", zones[kMetadataZones].capacity},
              {"zones", count},
              {"capacity_bytes", capacity},
              {"metadata_bytes", zones[0].capacity + zones[1].capacity},
              {"zones_empty", in([](ZoneCondition c) { return c == ZoneCondition::kEmpty; })},
              {"zones_active", in([](ZoneCondition c) { return IsActive(c); })},
              {"zones_full", in([](ZoneCondition c) { return c == ZoneCondition::kFull; })}});
  return IOStatus::OK();
}

}  // namespace

IOStatus RunDf(const std::string& device, Format format) {
  std::unique_ptr<Volume> volume;
  IOStatus status = MountToRead(device, &volume);
  if (!status.ok()) return status;
  const Geometry& geometry = volume->device()->geometry();
  const Superblock& superblock = volume->superblock();
  const SpaceUse space = volume->Space();
  const TotalsRecord totals = volume->SinceMkfs();
  const std::uint64_t taken = space.live + space.pad + space.kept;
  Json df = {{"schema_version", 1},
             {"identity", superblock.identity},
             {"label", superblock.label},
             {"block_size", geometry.block_size},
             {"zone_size", geometry.zone_size}};
  status = AddZones(volume.get(), &df);
  if (!status.ok()) return status;
  df.update(
      {{"free_bytes", space.capacity - std::min(space.capacity, taken)},
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
       {"resets", totals.resets}});
  if (format == Format::kJson) {
    std::puts(df.dump().c_str());
    return status;
  }
  for (const auto& [name, value] : df.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::printf("%-22s %s\n", name.c_str(), text.c_str());
  }
  return status;
}

}  // namespace zlfs::tool
