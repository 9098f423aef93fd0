// Random schedules of a load, failures of the device, kills and losses of power, checked against a
// model.
//
// Each mount must fulfil three conditions. Synced data is there, or its loss is named. No other
// file is affected. Nothing is there that was never written. A mount is refused only if the newest
// generation of the metadata cannot be read, or cannot be proved to be the newest.
//
// One seed of four has readers in other threads, and commands that wait for them; their order is
// not repeatable. Another seed of four gives tables more names.

#pragma once

#include <cstdint>
#include <string>

namespace zlfs::crash {

// Counts of the events in the schedules.
struct ScheduleCounts {
  std::uint64_t schedules = 0;
  std::uint64_t mounts = 0;
  std::uint64_t faults = 0;  // injected command failures
  std::uint64_t zones = 0;   // zones that became read-only, offline, full or smaller
  std::uint64_t kills = 0;
  std::uint64_t losses = 0;     // of power
  std::uint64_t named = 0;      // files whose loss fsck named
  std::uint64_t read_only = 0;  // mounts that could write no metadata zone
  std::uint64_t repaired = 0;   // volumes that a repair made mountable without a loss
  std::uint64_t lost = 0;       // volumes whose newest generation became offline
  std::uint64_t reads = 0;      // by the other threads
  std::uint64_t collected = 0;
  std::uint64_t saved = 0;  // ends of WALs in the auxiliary directory
};

// Runs the schedule of this seed. Returns the problem, or "" if there is none.
std::string RunSchedule(std::uint64_t seed, ScheduleCounts* counts);

}  // namespace zlfs::crash
