// Recovers the state of a volume from the metadata log and the pieces. Does not change the device.

#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "zlfs/format/superblock.h"
#include "zlfs/meta/namespace.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

// The content of a metadata zone.
struct Generation {
  bool started = false;  // the zone has a valid superblock
  Superblock superblock;
  std::uint64_t last_frame = 0;
  std::uint64_t flushed_frame = 0;  // the last frame known to be flushed
  Namespace space;
};

// The newest complete generation. Files include their pieces and are cut at the write pointers.
struct Recovered : Generation {
  std::uint32_t metadata_zone = 0;
  std::set<std::uint32_t> unreadable_metadata;  // metadata zones that cannot be read
  std::uint64_t last_piece = 0;
  // Zones whose write pointer marks the end of a file or of the pieces. They must not be finished
  // before a new snapshot records this end.
  std::vector<bool> fragile;
  std::vector<ZoneInfo> zones;  // zone report from before the first read
  // Log zones that a later mount reads again: a read failed, or a file with a lost end has pieces
  // there. Nothing may be written to them.
  std::set<std::uint32_t> kept_logs;
};

// Works while another process writes to the device. If the data is inconsistent, retries: a zone
// may have been reset during the read.
//
// Errors: "wrong-magic", "newer-version", "older-version", "wrong-device", "corrupt-…", or device
// errors.
IOStatus Recover(ZonedDevice* device, Recovered* recovered);

}  // namespace zlfs
