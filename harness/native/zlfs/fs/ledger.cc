#include "zlfs/fs/ledger.h"

#include <string>

#include "zlfs/format/superblock.h"

namespace zlfs {

SpaceUse SpaceOf(const Allocator& allocator) {
  SpaceUse use;
  for (const ZoneSpace& zone : allocator.zones()) {
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
  use.kept = allocator.kept_zones() * allocator.zone(kMetadataZones).capacity;
  use.empty_zones = allocator.empty_zones();
  use.active_zones = allocator.active_zones();
  return use;
}

Retirement RetirementOf(const Allocator& allocator, std::uint32_t zone, const char* event) {
  const ZoneSpace& space = allocator.zone(zone);
  return {zone, event, space.written, space.kept.live, allocator.clock() - space.opened};
}

nlohmann::json LedgerCounts(const Totals& totals, std::uint64_t collected_zones,
                            const SpaceUse& space, const std::vector<Retirement>& retired) {
  nlohmann::json line;
  for (std::size_t i = 0; i < std::size(kCauseNames); ++i) {
    line["written"][std::string(kCauseNames[i])] = {{"payload", totals.written[i].payload},
                                                    {"pad", totals.written[i].pad}};
  }
  for (std::size_t i = 0; i < std::size(kFinishNames); ++i) {
    line["finishes"][std::string(kFinishNames[i])] = {{"count", totals.finishes[i].count},
                                                      {"given_up", totals.finishes[i].given_up}};
  }
  line["resets"] = {{"data", totals.resets_data}, {"metadata", totals.resets_metadata}};
  line["flushes"] = totals.flushes;
  line["collected_zones"] = collected_zones;
  line["space"] = space;
  line["retired"] = retired;
  return line;
}

nlohmann::json LedgerZones(const Allocator& allocator) {
  nlohmann::json zones = nlohmann::json::array();
  for (std::uint32_t i = 0; i < allocator.zone_count(); ++i) {
    const ZoneSpace& zone = allocator.zone(i);
    if (zone.use == ZoneUse::kEmpty || zone.use == ZoneUse::kUnusable) continue;  // also metadata
    zones.push_back({i, zone.written, zone.kept.live, zone.kept.held - zone.kept.live,
                     zone.use == ZoneUse::kFull ? "full" : "active"});
  }
  return zones;
}

}  // namespace zlfs
