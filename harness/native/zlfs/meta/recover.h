// Recovers the state of a volume from the metadata log and the pieces. Does not change the device.

#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "zlfs/format/superblock.h"
#include "zlfs/meta/namespace.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

// The generation in a metadata zone.
struct Generation {
  bool started = false;     // the zone has a valid superblock
  bool superseded = false;  // a newer generation replaced it
  Superblock superblock;
  std::uint64_t last_frame = 0;
  std::uint64_t last_checksum = 0;  // of the last frame
  std::uint64_t flushed_frame = 0;  // the last frame known to be flushed
  Namespace space;
};

// The newest complete generation. Files include their pieces and are cut at the write pointers.
struct Recovered : Generation {
  std::vector<std::uint32_t> metadata_zones;    // its copies, the best one first
  std::set<std::uint32_t> unreadable_metadata;  // metadata zones that cannot be read
  std::uint64_t last_piece = 0;
  // Zones whose write pointer marks the end of a file or of the pieces. They must not be finished
  // before a new snapshot records this end.
  std::vector<bool> fragile;
  std::vector<ZoneInfo> zones;  // the zone report from before the first read
  // Log zones that a later mount reads again: a read of them failed, or they have pieces of a file
  // with a lost end. Nothing may be written to them.
  std::set<std::uint32_t> kept_logs;
  std::vector<std::string> losses;  // only with kSalvage: changes that the state does not contain
};

// kSalvage takes the best state that can be read, although it may be older than the newest one.
// Zones may have changed since this state: a file can then have the content of another one.
enum class Effort : std::uint8_t { kExact, kSalvage };

// Works while another process writes to the device: inconsistent data is read again, because a zone
// may have been reset during the read.
//
// Errors: device errors, "too-few-zones", "wrong-magic", "newer-version", "older-version",
// "wrong-device", "corrupt-…", "lost-data". "lost-log": the newest generation cannot be read, or
// cannot be proved to be the newest.
IOStatus Recover(ZonedDevice* device, Recovered* recovered, Effort effort = Effort::kExact);

}  // namespace zlfs
