// Contents of the ledger (docs/zlfs.md) for a mounted or replayed volume.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "zlfs/account/zone_io.h"

namespace zlfs {

struct SpaceUse {
  std::uint64_t capacity = 0;  // capacity of the zones that can hold data
  std::uint64_t live = 0;
  std::uint64_t pad = 0;  // padding and headers of blocks with live bytes
  std::uint64_t garbage = 0;
  std::uint64_t given_up = 0;  // capacity lost in finished or unusable zones
  std::uint64_t free = 0;
  std::uint64_t kept = 0;  // bytes in empty zones that new data must leave
  std::uint32_t empty_zones = 0;
  std::uint32_t active_zones = 0;  // excluding metadata zones
};
SpaceUse SpaceOf(const Allocator& allocator);

// JSON format in the ledger and in `zlfs dump`.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SpaceUse, capacity, live, garbage, pad, given_up, free,
                                   empty_zones, active_zones)

// Ledger entry for a finished or reset zone: zone, "finish" or "reset", bytes written, live bytes,
// and bytes written to the device since the zone was opened.
using Retirement =
    std::tuple<std::uint32_t, const char*, std::uint64_t, std::uint64_t, std::uint64_t>;
Retirement RetirementOf(const Allocator& allocator, std::uint32_t zone, const char* event);

// Returns the ledger fields that do not depend on the time or the device.
nlohmann::json LedgerCounts(const Totals& totals, std::uint64_t collected_zones,
                            const SpaceUse& space, const std::vector<Retirement>& retired);
nlohmann::json LedgerZones(const Allocator& allocator);

}  // namespace zlfs
