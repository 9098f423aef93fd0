// What the ledger says (docs/zlfs.md), of a mounted device or of a replayed one.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "zlfs/account/zone_io.h"

namespace zlfs {

struct SpaceUse {
  std::uint64_t capacity = 0;  // of zones that can hold data
  std::uint64_t live = 0;
  std::uint64_t pad = 0;  // padding and headers that live bytes keep
  std::uint64_t garbage = 0;
  std::uint64_t given_up = 0;  // by finishing zones
  std::uint64_t free = 0;
  std::uint64_t kept = 0;  // of zones kept empty for what frees space
  std::uint32_t empty_zones = 0;
  std::uint32_t active_zones = 0;  // of data
};
SpaceUse SpaceOf(const Allocator& allocator);

// As the ledger and `zlfs dump` say it.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SpaceUse, capacity, live, garbage, pad, given_up, free,
                                   empty_zones, active_zones)

// A zone at the end of a life, as the ledger lists it: zone, "finish" or "reset", bytes written,
// bytes live, bytes written to the device since the zone was opened.
using Retirement =
    std::tuple<std::uint32_t, const char*, std::uint64_t, std::uint64_t, std::uint64_t>;
Retirement RetirementOf(const Allocator& allocator, std::uint32_t zone, const char* event);

// The fields that are no matter of time and device.
nlohmann::json LedgerCounts(const Totals& totals, std::uint64_t collected_zones,
                            const SpaceUse& space, const std::vector<Retirement>& retired);
nlohmann::json LedgerZones(const Allocator& allocator);

}  // namespace zlfs
