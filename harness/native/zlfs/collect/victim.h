// Scores that decide which full zone the collector empties first. A new rule needs a name and a
// score here.

#pragma once

#include <cstdint>
#include <string_view>

namespace zlfs {

enum Victim : std::uint8_t { kGarbage, kCostBenefit };

inline constexpr std::string_view kVictimNames[] = {"garbage", "cost-benefit"};

// The collector takes the zone with the largest score. `used` is the share of the zone that has to
// be copied (0 to 1). `idle` is the number of bytes written to the volume since the last write to
// the zone.
inline double Score(Victim rule, double used, double idle) {
  switch (rule) {
    case kGarbage:
      return 1 - used;
    case kCostBenefit:  // Rosenblum and Ousterhout, SOSP'91
      return (1 - used) / (1 + used) * idle;
  }
  return 0;
}

}  // namespace zlfs
