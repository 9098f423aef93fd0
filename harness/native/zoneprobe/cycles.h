// zoneprobe's plan: the zone, the treatment and the order of every cycle.
//
// A cycle applies one treatment to one empty zone, and then resets it:
//
//   fresh        first writes to a zone without writes since the reset of all zones
//   reset-<o>    fill up to occupancy o; reset; first writes
//   finish-<o>   fill up to occupancy o; finish; reset; first writes
//
// The summary holds the times of all steps except the fill and the last reset. At most one zone is
// active at any time.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zoneprobe {

// The fill level of a zone: `0`, `block`, a percentage of its capacity, or `all-but-block`.
struct Occupancy {
  enum class Kind : std::uint8_t { kShare, kBlock, kAllButBlock };

  std::string name;
  Kind kind = Kind::kShare;
  double percent = 0;  // for kShare

  // Returns whole blocks, at most the capacity.
  std::uint64_t Bytes(std::uint64_t capacity, std::uint64_t block) const;
};

// Returns nullopt for an invalid occupancy.
std::optional<Occupancy> ParseOccupancy(std::string_view text);
// Parses a comma-separated list. Returns nullopt if an occupancy is invalid or occurs twice.
std::optional<std::vector<Occupancy>> ParseOccupancies(const std::string& text);

struct Treatment {
  std::string name;
  bool fresh = false;
  bool finish = false;
  Occupancy occupancy;
};

// Returns `fresh`, then the resets, then the finishes, each in the given order.
std::vector<Treatment> Treatments(std::span<const Occupancy> resets,
                                  std::span<const Occupancy> finishes);

struct Cycle {
  std::uint32_t zone = 0;
  std::uint32_t treatment = 0;  // index into the treatments
};

// Returns `repeats` cycles of each treatment in random order, on zones in random order. `fresh`
// uses each of its zones only once; the other treatments share the remaining zones in turn. Returns
// no cycles for fewer than `repeats` + 1 zones. A seed gives the same cycles on every machine.
std::vector<Cycle> MakeCycles(std::span<const Treatment> treatments, std::uint32_t repeats,
                              std::vector<std::uint32_t> zones, std::uint64_t seed);

}  // namespace zoneprobe
