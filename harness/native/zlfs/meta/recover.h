// Reading what is on the device, without changing it: the metadata log, then the pieces.

#pragma once

#include <cstdint>
#include <vector>

#include "zlfs/format/superblock.h"
#include "zlfs/meta/namespace.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

struct Recovered {
  Superblock superblock;  // of the newest generation
  std::uint32_t metadata_zone = 0;
  std::uint64_t last_frame = 0;
  std::uint64_t flushed_frame = 0;  // the last one that is known to have been flushed
  std::uint64_t last_piece = 0;
  Namespace space;
  // Zones whose write pointer says where a file or the pieces end: they must not be finished before
  // a new snapshot says so.
  std::vector<bool> fragile;
  std::vector<ZoneInfo> zones;  // as reported before anything was read
};

// Errors: "wrong-magic", "newer-version", "wrong-device", "corrupt-…", or the device's.
IOStatus Recover(ZonedDevice* device, Recovered* recovered);
// The same while somebody else may be writing: tries again when what was read makes no sense,
// because a zone was reset meanwhile.
IOStatus RecoverBeside(ZonedDevice* device, Recovered* recovered);

}  // namespace zlfs
