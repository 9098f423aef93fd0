// Reads traces of allocations (zlfs/format/event.h, docs/replay.md).

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zlfs/alloc/policy.h"
#include "zlfs/format/event.h"
#include "zlfs/zoned/errors.h"

namespace zlfs::replay {

// One recorded mount.
struct Mount {
  std::uint64_t version = 0;  // of the trace's format
  std::uint64_t block_size = 0;
  std::uint32_t active_budget = 0;
  Policy policy;
  std::vector<ZoneEvent> zones;
  std::vector<FileEvent> files;
  std::vector<Event> events;  // AskEvent, StepEvent, SyncEvent and ReadEvent
  std::vector<Stamp> stamps;  // of the events; empty before version 3
  std::string ledger;         // the last line of the mount's ledger
};

// Errors: "missing", "bad-trace", "newer-trace", "unfinished", "device-trouble".
IOStatus ReadTrace(const std::string& path, std::vector<Mount>* mounts);

// Converts the recorded times to the clock of the drive, for a recording in which a second of the
// drive took `dilation` seconds.
void ToTimeOfDrive(std::uint64_t dilation, Mount* mount);

}  // namespace zlfs::replay
