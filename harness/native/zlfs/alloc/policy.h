// Settings of the allocator that an experiment can choose.

#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "zlfs/collect/victim.h"

namespace zlfs {

enum OnActiveLimit : std::uint8_t { kShare, kFinish, kWait };

// One byte per field, in the order of the superblock.
struct Policy {
  // Finish a zone when its writer leaves it with less than this share of its capacity free.
  std::uint8_t finish_remaining_pct = 0;
  // The complement, as in papers: finish when more than this share is occupied.
  std::uint8_t finish_occupancy_pct = 100;
  // Collect when less than this share of the data zones is empty, and always shortly before writers
  // must wait. A lower value is cheaper: RocksDB empties many zones itself, without copies.
  std::uint8_t gc_start_pct = 1;
  std::uint8_t on_active_limit = OnActiveLimit::kShare;
  std::uint8_t gc_victim = Victim::kGarbage;
  std::uint8_t gc = 1;
  std::uint8_t lifetimes = 1;  // honour write-lifetime hints
  // Limit of active zones in the namespace, with those of the metadata log; 0: the device's limit.
  // Volumes that share a namespace must divide its active zones.
  std::uint8_t max_active = 0;

  bool operator==(const Policy&) const = default;
};

inline constexpr std::string_view kOnActiveLimitNames[] = {"share", "finish", "wait"};
inline constexpr std::string_view kSwitchNames[] = {"off", "on"};

// A named field of Policy: a number in a range, or one of a list of words.
struct PolicyField {
  std::string_view name;
  std::string_view what;  // description and default; programs print the words after it
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
    {"gc_start_pct", "collect when less than this share of the zones is empty (1)",
     &Policy::gc_start_pct, 1, 90},
    {"on_active_limit", "at the limit of active zones (share)", &Policy::on_active_limit, 0,
     std::size(kOnActiveLimitNames) - 1, kOnActiveLimitNames},
    {"gc_victim", "zone that is collected first (garbage)", &Policy::gc_victim, 0,
     std::size(kVictimNames) - 1, kVictimNames},
    {"gc", "collect garbage (on)", &Policy::gc, 0, 1, kSwitchNames},
    {"lifetimes", "honour write-lifetime hints (on)", &Policy::lifetimes, 0, 1, kSwitchNames},
    {"max_active", "zones that may be active at once, 0: all that the device allows (0)",
     &Policy::max_active, 0, 255}};

}  // namespace zlfs
