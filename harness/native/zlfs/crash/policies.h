// Random policies for campaigns. With the default policy alone, no zone would be finished by its
// threshold, so no kill or loss of power would meet such a finish.

#pragma once

#include <cstdint>
#include <iterator>

#include "zlfs/alloc/policy.h"

namespace zlfs::crash {

// `below(n)` returns a random number below n. The collector stays on, because the databases of
// campaigns fill their devices.
template <typename Below>
Policy RandomPolicy(const Below& below) {
  constexpr std::uint8_t kThresholds[] = {0, 10, 50, 90};
  Policy policy;
  policy.finish_remaining_pct = kThresholds[below(std::size(kThresholds))];
  policy.finish_occupancy_pct = static_cast<std::uint8_t>(100 - policy.finish_remaining_pct);
  policy.on_active_limit = static_cast<std::uint8_t>(below(std::size(kOnActiveLimitNames)));
  policy.gc_start_pct = below(2) == 0 ? 1 : 60;
  policy.gc_victim = static_cast<std::uint8_t>(below(std::size(kVictimNames)));
  policy.lifetimes = static_cast<std::uint8_t>(below(std::size(kSwitchNames)));
  return policy;
}

}  // namespace zlfs::crash
