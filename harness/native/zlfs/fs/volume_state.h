// What the parts of a mounted volume share: the way to the device, and the state behind one mutex.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "zlfs/account/trace.h"
#include "zlfs/account/zone_io.h"
#include "zlfs/format/superblock.h"
#include "zlfs/meta/log.h"
#include "zlfs/meta/namespace.h"

namespace zlfs {

struct VolumeState {
  explicit VolumeState(std::unique_ptr<ZonedDevice> owned)
      : device(std::move(owned)), io(device.get()) {}

  const std::unique_ptr<ZonedDevice> device;
  ZoneIo io;

  // Only the mount changes these three.
  Superblock superblock;
  std::string read_only;         // why; empty: read-write
  std::unique_ptr<MetaLog> log;  // null if read-only

  // A file, its extents and its zones change together, so that one mutex guards all of them.
  std::mutex mutex;                      // guards the members below
  std::condition_variable changed;       // signals that a writer left its zone or a zone changed
  std::uint64_t returns = 0;             // counts closed writers, removed files and reset zones
  Namespace space;                       // includes deleted files in use; totals as of the mount
  std::unique_ptr<Allocator> allocator;  // set by the mount
  AllocationTrace trace;
};

}  // namespace zlfs
