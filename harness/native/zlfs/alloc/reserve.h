// How many empty zones each cause must leave, so that work that frees space can still run. The
// allocator only counts zones; these rules are policy.

#pragma once

#include <cstdint>

#include "zlfs/alloc/allocator.h"

namespace zlfs {

struct Reserve {
  std::uint64_t zone_capacity = 1;  // of the smallest zone
  std::uint64_t log_bytes = 0;      // content of WALs
  std::uint32_t log_zones = 0;      // zones that WALs began to fill since the mount
  std::uint64_t log_room = 0;       // left in the WALs' zone; 0 for the first one of a mount
  std::uint32_t spare = 0;          // that only new data must leave

  std::uint32_t For(Cause cause) const;
  // Opening a database flushes all WALs and begins a new one. Returns the empty zones that this
  // needs after WALs grow by `room` bytes; all other work must leave them.
  std::uint32_t WithLogs(std::uint64_t room) const;
};

}  // namespace zlfs
