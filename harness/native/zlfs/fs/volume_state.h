// The state that all parts of a mounted volume share: the device, and files, extents and zones
// behind one mutex.

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

  // Only the mount changes these three, so no lock guards them.
  Superblock superblock;
  std::string read_only;         // the reason; empty: the volume is read-write
  std::unique_ptr<MetaLog> log;  // null if read-only

  // A file, its extents and its zones change together, so one mutex guards all of them.
  std::mutex mutex;                 // the state mutex; guards the members below
  std::condition_variable changed;  // signals a closed writer, a removed file or a changed zone
  std::uint64_t returns = 0;        // counts closed writers, removed files, reset and settled zones
  Namespace space;                  // with deleted files that are open; totals as of the mount
  std::unique_ptr<Allocator> allocator;  // set by the mount
  AllocationTrace trace;
};

}  // namespace zlfs
