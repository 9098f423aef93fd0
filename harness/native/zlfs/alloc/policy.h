// What an experiment can choose about the allocator.

#pragma once

#include <cstdint>
#include <string_view>

namespace zlfs {

enum class OnActiveLimit : std::uint8_t { kShare, kFinish, kWait };
enum class Victim : std::uint8_t { kGarbage, kCostBenefit };

inline constexpr std::string_view kOnActiveLimitNames[] = {"share", "finish", "wait"};
inline constexpr std::string_view kVictimNames[] = {"garbage", "cost-benefit"};

struct Policy {
  // A zone that its writer leaves with less than this share of its capacity free is finished.
  std::uint8_t finish_remaining_pct = 0;
  OnActiveLimit on_active_limit = OnActiveLimit::kShare;
  bool lifetimes = true;  // honour write-lifetime hints
  bool gc = true;
  // Space is low when fewer than this share of the data zones is empty. Later is cheaper: zones
  // that RocksDB empties by itself need no copying.
  std::uint8_t gc_start_pct = 5;
  Victim gc_victim = Victim::kGarbage;

  // The same threshold as papers state it: finish when more than this share is occupied.
  std::uint8_t finish_occupancy_pct() const {
    return static_cast<std::uint8_t>(100 - finish_remaining_pct);
  }
  bool operator==(const Policy&) const = default;
};

}  // namespace zlfs
