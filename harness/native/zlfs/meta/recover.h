// Reading what is on the device, without changing it: the metadata log, then the pieces.

#pragma once

#include <cstdint>
#include <vector>

#include "zlfs/format/superblock.h"
#include "zlfs/meta/namespace.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

// What a metadata zone says.
struct Generation {
  bool started = false;  // has a superblock
  Superblock superblock;
  std::uint64_t last_frame = 0;
  std::uint64_t flushed_frame = 0;  // the last one that is known to have been flushed
  Namespace space;
};

struct Recovered : Generation {  // the newest whole one, its files completed and cut
  std::uint32_t metadata_zone = 0;
  std::uint64_t last_piece = 0;
  // Zones whose write pointer says where a file or the pieces end: they must not be finished before
  // a new snapshot says so.
  std::vector<bool> fragile;
  std::vector<ZoneInfo> zones;  // as reported before anything was read
};

// Works while somebody else is writing: tries again when what was read makes no sense, because a
// zone was reset meanwhile.
//
// Errors: "wrong-magic", "newer-version", "wrong-device", "corrupt-…", or the device's.
IOStatus Recover(ZonedDevice* device, Recovered* recovered);

}  // namespace zlfs
