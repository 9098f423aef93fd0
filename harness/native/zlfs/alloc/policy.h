// What an experiment can choose about the allocator.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace zlfs {

enum OnActiveLimit : std::uint8_t { kShare, kFinish, kWait };
enum Victim : std::uint8_t { kGarbage, kCostBenefit };

// A byte each, in the order of the superblock.
struct Policy {
  // A zone that its writer leaves with less than this share of its capacity free is finished.
  std::uint8_t finish_remaining_pct = 0;
  // The same as papers state it, 100 less that: when more than this share is occupied.
  std::uint8_t finish_occupancy_pct = 100;
  // Space is low when fewer than this share of the data zones is empty. Later is cheaper: zones
  // that RocksDB empties by itself need no copying.
  std::uint8_t gc_start_pct = 5;
  std::uint8_t on_active_limit = OnActiveLimit::kShare;
  std::uint8_t gc_victim = Victim::kGarbage;
  std::uint8_t gc = 1;
  std::uint8_t lifetimes = 1;  // honour write-lifetime hints
  // Zones of the namespace that may be active here, the metadata log's among them; 0: all that the
  // device allows. Who shares a namespace has to leave some to the others.
  std::uint8_t max_active = 0;

  bool operator==(const Policy&) const = default;
};

inline constexpr std::string_view kOnActiveLimitNames[] = {"share", "finish", "wait"};
inline constexpr std::string_view kVictimNames[] = {"garbage", "cost-benefit"};
inline constexpr std::string_view kSwitchNames[] = {"off", "on"};

// A policy by its name: a number in a range, or one of some words.
struct PolicyField {
  std::string_view name;
  std::string_view what;  // and its default
  std::uint8_t Policy::*value;
  std::uint8_t least;
  std::uint8_t most;
  std::span<const std::string_view> words = {};
};
inline constexpr PolicyField kPolicyFields[] = {
    {"finish_remaining_pct", "finish a zone that is left with less than this share free (0)",
     &Policy::finish_remaining_pct, 0, 100},
    {"finish_occupancy_pct", "the same as its complement (100)", &Policy::finish_occupancy_pct, 0,
     100},
    {"gc_start_pct", "collect when less than this share of the zones is empty (5)",
     &Policy::gc_start_pct, 1, 90},
    {"on_active_limit", "share, finish or wait (share)", &Policy::on_active_limit, 0, 2,
     kOnActiveLimitNames},
    {"gc_victim", "garbage or cost-benefit (garbage)", &Policy::gc_victim, 0, 1, kVictimNames},
    {"gc", "on or off (on)", &Policy::gc, 0, 1, kSwitchNames},
    {"lifetimes", "on or off (on)", &Policy::lifetimes, 0, 1, kSwitchNames},
    {"max_active", "zones that may be active at once, 0: all that the device allows (0)",
     &Policy::max_active, 0, 255}};

}  // namespace zlfs
