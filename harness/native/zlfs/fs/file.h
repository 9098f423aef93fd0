// A file of a mounted volume.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "zlfs/account/totals.h"
#include "zlfs/alloc/allocator.h"
#include "zlfs/meta/namespace.h"
#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

// Where a file lies, at one moment. Immutable: a reader keeps it while it reads, and a zone that a
// kept map mentions is not reset.
struct ExtentMap {
  std::vector<Extent> extents;
  std::vector<std::uint64_t> starts;  // file offset of each extent
  std::uint64_t size = 0;
};

// The part of a file from offset `from` to `to`.
std::vector<Extent> Part(const std::vector<Extent>& extents, std::uint64_t from, std::uint64_t to);
// Adds an extent, joined with the last one if it continues it.
void Join(std::vector<Extent>* extents, const Extent& extent);

// What an extent keeps: all blocks it touches. Extents never share a block, and only the content of
// a piece begins within one; a copy of it needs no header and, with the next pieces, no padding.
inline Kept KeptBy(const Extent& extent, std::uint64_t block) {
  const std::uint64_t held = RoundUp(extent.end(), block) - extent.offset / block * block;
  const bool piece = extent.offset % block != 0;
  return {.live = extent.length, .held = held, .packed = piece ? extent.length : held};
}

// What a writer says about its bytes.
struct Placement {
  Stream stream = Stream::kOther;
  Urgency urgency = Urgency::kManifest;
  Job job = Job::kNone;
  Cause cause = Cause::kOther;
  std::uint8_t lifetime = 0;  // Env::WriteLifeTimeHint
};

// What it inherits is guarded by the volume's state mutex, but for id and kind, which never change.
struct File : FileInfo {
  explicit File(FileInfo info) : FileInfo(std::move(info)) {}

  // Guarded by the volume's state mutex.
  std::uint64_t recorded = 0;  // the first bytes that records describe; log files: unused
  std::uint64_t position = 0;  // in the metadata log: the last record that this file needs
  int handles = 0;
  bool deleted = false;

  // The writer's unwritten bytes, behind those in extents. Readers see them, too.
  std::mutex tail_mutex;  // taken before the state mutex; guards what follows
  AlignedBuffer tail;     // a piece's header goes before the content
  std::size_t tail_size = 0;
  IOStatus failed;  // why a write failed: the file takes nothing any more
  Placement placement;

  std::mutex map_mutex;                              // taken last; guards what follows
  std::shared_ptr<const ExtentMap> map;              // null: to be made from `extents`
  std::vector<std::weak_ptr<const ExtentMap>> maps;  // also earlier ones that readers still use
};

}  // namespace zlfs
