// Reads files. A reader's map of extents pins their zones: a pinned zone is not reset.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "zlfs/fs/read_pool.h"
#include "zlfs/fs/volume_state.h"

namespace zlfs {

class FileReader {
 public:
  explicit FileReader(VolumeState* state);

  // Reads fewer than `size` bytes only at the end of the file.
  IOStatus Read(File* file, std::uint64_t offset, std::size_t size, Slice* read, char* to);
  // Reads, and records the read if the trace holds such reads.
  IOStatus TracedRead(File* file, bool compaction, std::uint64_t offset, std::size_t size,
                      Slice* read, char* to);
  // Calls work(0) to work(count - 1), which read. Uses threads if the device answers reads in
  // parallel. From a device in memory, one thread copies faster.
  void ReadMany(std::size_t count, const ReadPool::Work& work);
  // For reads in the background; null if the device does not answer reads in parallel.
  ReadPool* pool() { return state_->io.geometry().waits ? &pool_ : nullptr; }
  std::uint64_t Size(File* file);

  // Returns the file's extents, whose zones stay pinned as long as the map exists.
  std::shared_ptr<const ExtentMap> Map(File* file);
  IOStatus ReadExtents(const ExtentMap& map, std::uint64_t offset, std::size_t size, char* to);
  // Whether a map pins the zone. Requires the state mutex.
  bool Pinned(std::uint32_t zone) const {
    return (*pins_)[zone].load(std::memory_order_acquire) != 0;
  }

 private:
  // Lowers `*end` to the end of the file. Copies the part of [offset, *end) that is in the writer's
  // buffer; `to` is for the byte at `offset`. `*map` receives the extents of all bytes before it.
  IOStatus ReadTail(File* file, std::uint64_t offset, std::uint64_t* end, char* to,
                    std::shared_ptr<const ExtentMap>* map);

  VolumeState* const state_;
  ReadPool pool_;
  // A pin is taken only with the state mutex held, and released without a lock.
  const std::shared_ptr<ZonePins> pins_;
};

}  // namespace zlfs
