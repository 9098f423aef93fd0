// What zoneprobe does, before it does anything: which zone gets which treatment, in which order.
//
// A cycle takes one empty zone through one treatment and leaves it empty:
//
//   fresh        first writes, to a zone that nobody wrote to since all zones were reset
//   reset-<o>    fill up to occupancy o; reset; first writes
//   finish-<o>   fill up to occupancy o; finish; reset; first writes
//
// and a last reset. Nothing but fills and that last reset goes untimed. At most one zone is active
// at any time.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zoneprobe {

// How full a zone is: `0`, `block`, a percentage of its capacity, or `all-but-block`.
struct Occupancy {
  enum class Kind : std::uint8_t { kShare, kBlock, kAllButBlock };

  std::string name;
  Kind kind = Kind::kShare;
  double percent = 0;  // of kShare

  // In whole blocks, at most the capacity.
  std::uint64_t Bytes(std::uint64_t capacity, std::uint64_t block) const;
};

// Nothing when it is none of these.
std::optional<Occupancy> ParseOccupancy(std::string_view text);
// Comma-separated; nothing when one is wrong, or is there twice.
std::optional<std::vector<Occupancy>> ParseOccupancies(const std::string& text);

struct Treatment {
  std::string name;
  bool fresh = false;
  bool finish = false;
  Occupancy occupancy;
};

// `fresh`, then each reset, then each finish, in the order given.
std::vector<Treatment> Treatments(std::span<const Occupancy> resets,
                                  std::span<const Occupancy> finishes);

struct Cycle {
  std::uint32_t zone = 0;
  std::uint32_t treatment = 0;  // index
};

// `repeats` cycles of each treatment in random order, on zones in random order. `fresh` has zones
// of its own, which serve once; the others take turns on what is left. Empty when the zones do not
// suffice: `repeats` and one more are needed. The same seed gives the same cycles everywhere.
std::vector<Cycle> MakeCycles(std::span<const Treatment> treatments, std::uint32_t repeats,
                              std::vector<std::uint32_t> zones, std::uint64_t seed);

}  // namespace zoneprobe
