// Files and their names. Recovery replays the metadata log and adds the pieces of log zones. A
// mounted volume applies and logs the same records.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "zlfs/alloc/allocator.h"
#include "zlfs/format/record.h"
#include "zlfs/format/sealed.h"
#include "zlfs/meta/saved_tail.h"
#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/errors.h"

namespace zlfs {

// Returns the extents of the file range [from, to).
std::vector<Extent> Part(const std::vector<Extent>& extents, std::uint64_t from, std::uint64_t to);
// Adds an extent. Merges it with the last one if they are adjacent.
void Join(std::vector<Extent>* extents, const Extent& extent);

// Returns the space that an extent keeps: all blocks that it touches. Extents never share a block.
// Only the content of a piece starts inside a block. Its copy needs no header, and no padding if
// the next pieces follow.
inline Kept KeptBy(const Extent& extent, std::uint64_t block) {
  const std::uint64_t held = RoundUp(extent.end(), block) - extent.offset / block * block;
  const bool piece = extent.offset % block != 0;
  return {.live = extent.length, .held = held, .packed = piece ? extent.length : held};
}

// Per zone: the number of extents in readers' maps. A zone with pins is not reset.
using ZonePins = std::vector<std::atomic<std::uint32_t>>;

// An immutable snapshot of a file's extents. A reader holds it during a read.
struct ExtentMap {
  ExtentMap(std::vector<Extent> of, std::shared_ptr<ZonePins> zones)
      : extents(std::move(of)), pins(std::move(zones)) {
    for (const Extent& extent : extents) {
      starts.push_back(size);
      size += extent.length;
      (*pins)[extent.zone].fetch_add(1, std::memory_order_relaxed);
    }
  }
  ExtentMap(const ExtentMap&) = delete;
  ExtentMap& operator=(const ExtentMap&) = delete;
  // The release order makes all reads of this map end before a reset that sees no pin.
  ~ExtentMap() {
    for (const Extent& extent : extents) {
      (*pins)[extent.zone].fetch_sub(1, std::memory_order_release);
    }
  }

  const std::vector<Extent> extents;
  std::vector<std::uint64_t> starts;  // file offset of each extent
  std::uint64_t size = 0;
  const std::shared_ptr<ZonePins> pins;
};

// Size of a writer's buffer: large enough to amortize the cost of device commands, small enough for
// hundreds of open files.
inline constexpr std::size_t kTailBytes = 1 << 20;

struct FileInfo {
  std::uint64_t id = 0;
  FileKind kind = FileKind::kData;
  std::string name = {};
  std::vector<std::string> links = {};  // its other names (hard links)
  std::uint64_t modified = 0;
  std::uint8_t lifetime = 0;
  std::uint64_t size = 0;  // sum of the extents' lengths
  std::vector<Extent> extents = {};
};

// The volume's state mutex guards the inherited members, except id and kind, which never change.
struct File : FileInfo {
  explicit File(FileInfo info) : FileInfo(std::move(info)) {}

  // Used only during recovery.
  std::vector<std::uint64_t> frames;  // per extent: the frame that records it, 0 for a piece
  void Cut(std::uint64_t new_size);   // truncates the file
  void Append(const Extent& extent, std::uint64_t frame);

  // Guarded by the volume's state mutex.
  std::uint64_t recorded = 0;  // length of the prefix that records or pieces describe
  std::uint64_t position = 0;  // log position of the last record that the file needs
  int handles = 0;
  bool deleted = false;
  std::set<std::uint32_t> log_zones;  // log zones with pieces of this file
  std::uint64_t reserved_for = 0;     // of a WAL: the size for whose flush zones are reserved

  // A log zone that cannot be read now and may hold content beyond `size`. Only recovery sets it.
  std::optional<std::uint32_t> lost_zone;

  // The writer's unwritten bytes, which follow the bytes in extents. Readers see them too.
  std::mutex tail_mutex;  // lock order: before the state mutex; guards the members up to placement
  AlignedBuffer tail;     // for a log file, starts with space for a piece header
  std::size_t tail_size = 0;
  std::unique_ptr<SavedTail> saved;  // of a WAL: where its tail survives a kill
  bool synced = false;               // a sync came after the last SaveBuffer
  IOStatus failed;                   // first write error; all later appends fail with it
  Placement placement;

  // Start of the content in `tail`.
  std::size_t tail_head() const { return kind == FileKind::kLog ? kHeaderSize : 0; }

  // Call this when the extents change: the next read makes a new map.
  void ForgetMap() {
    const std::lock_guard lock(map_mutex);
    map.reset();
  }
  std::mutex map_mutex;                  // lock order: last; guards map
  std::shared_ptr<const ExtentMap> map;  // null: rebuilt from `extents` on the next read
};

// A contiguous range of a file in the victim zone of garbage collection, and its copy.
struct Run {
  std::shared_ptr<File> file;
  std::uint64_t begin = 0;  // file offset
  std::uint64_t end = 0;
  std::vector<Extent> to = {};

  // Replaces the range in the file with its copy. Returns the old extents.
  std::vector<Extent> Replace() const;
};

// Creates a record of the extents in [from, recorded).
inline ExtentsRecord RecordOf(const File& file, std::uint64_t from) {
  return {.file = file.id,
          .from = from,
          .lifetime = file.lifetime,
          .extents = Part(file.extents, from, file.recorded)};
}

using Files = std::map<std::uint64_t, std::shared_ptr<File>>;
inline constexpr std::size_t kRunBytes = 1 << 20;
// Returns all file content in the zone as runs of at most kRunBytes.
std::vector<Run> RunsIn(const Files& files, std::uint32_t zone);

struct Namespace {
  bool whole = false;  // the snapshot was replayed completely
  std::uint64_t next_file = 1;
  TotalsRecord totals;
  Files files;  // includes deleted files that `gone` keeps
  std::map<std::string, std::shared_ptr<File>> names;
  std::map<std::uint32_t, std::uint64_t> log_zones;  // zone -> offset of the first piece

  // Called for each file that loses its last name. If not set, such files are removed.
  std::function<void(const std::shared_ptr<File>&)> gone;

  // Errors: "corrupt-record", "corrupt-id".
  IOStatus Apply(const Record& record, std::uint64_t frame);
};

// Normalizes a path: "/a//b/" and "a/./b" both become "/a/b".
std::string Canonical(const std::string& path);
// Returns whether the name is absolute, has no empty, "." or ".." component, and no trailing slash.
bool IsCanonical(const std::string& name);

}  // namespace zlfs
