// Files and their names: replayed from the metadata log, completed from the pieces of log zones,
// and then changed by a mounted volume, which writes the same records.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "zlfs/alloc/allocator.h"
#include "zlfs/format/record.h"
#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/errors.h"

namespace zlfs {

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

// Where a file lies, at one moment. Immutable: a reader keeps it while it reads.
struct ExtentMap {
  std::vector<Extent> extents;
  std::vector<std::uint64_t> starts;  // file offset of each extent
  std::uint64_t size = 0;
  std::vector<std::shared_ptr<const void>> pins;  // of its zones, which are not reset meanwhile
};

struct FileInfo {
  std::uint64_t id = 0;
  FileKind kind = FileKind::kData;
  std::string name = {};
  std::uint64_t modified = 0;
  std::uint8_t lifetime = 0;
  std::uint64_t size = 0;  // sum of the extents' lengths
  std::vector<Extent> extents = {};
};

// What it inherits is guarded by the volume's state mutex, but for id and kind, which never change.
struct File : FileInfo {
  explicit File(FileInfo info) : FileInfo(std::move(info)) {}

  // While recovering.
  std::vector<std::uint64_t> frames;  // that said so, of each extent; pieces: 0
  void Cut(std::uint64_t new_size);   // keeps the first bytes
  void Append(const Extent& extent, std::uint64_t frame);

  // Guarded by the volume's state mutex.
  std::uint64_t recorded = 0;  // the first bytes that records or pieces describe
  std::uint64_t position = 0;  // in the metadata log: the last record that this file needs
  int handles = 0;
  bool deleted = false;

  // The writer's unwritten bytes, behind those in extents. Readers see them, too.
  std::mutex tail_mutex;  // taken before the state mutex; guards what follows
  AlignedBuffer tail;     // a piece's header goes before the content
  std::size_t tail_size = 0;
  IOStatus failed;  // why a write failed: the file takes nothing any more
  Placement placement;

  std::mutex map_mutex;                  // taken last; guards what follows
  std::shared_ptr<const ExtentMap> map;  // null: to be made from `extents`
};

// Consecutive content of a file in a zone that is being collected, and where it was copied.
struct Run {
  std::shared_ptr<File> file;
  std::uint64_t begin = 0;  // in the file
  std::uint64_t end = 0;
  std::vector<Extent> to = {};

  // The file consists of the copy now. What it consisted of so far.
  std::vector<Extent> Replace() const;
};

// Says where the first `recorded` bytes lie, from byte `from` on.
inline ExtentsRecord RecordOf(const File& file, std::uint64_t from) {
  return {.file = file.id,
          .from = from,
          .lifetime = file.lifetime,
          .extents = Part(file.extents, from, file.recorded)};
}

using Files = std::map<std::uint64_t, std::shared_ptr<File>>;
// All content in the zone, in runs that a copy of kRunBytes at most takes.
inline constexpr std::size_t kRunBytes = 1 << 20;
std::vector<Run> RunsIn(const Files& files, std::uint32_t zone);

struct Namespace {
  bool whole = false;  // all of the snapshot was replayed
  std::uint64_t next_file = 1;
  TotalsRecord totals;
  Files files;  // also deleted ones that `gone` keeps
  std::map<std::string, std::shared_ptr<File>> names;
  std::map<std::uint32_t, std::uint64_t> log_zones;  // zone -> offset where the pieces begin

  // Gets files that lose their name; without it they are forgotten.
  std::function<void(const std::shared_ptr<File>&)> gone;

  // Errors: "corrupt-record", with what is wrong.
  IOStatus Apply(const Record& record, std::uint64_t frame);
};

// "/a//b/" and "a/./b" are both "/a/b".
std::string Canonical(const std::string& path);
// A name in the name space: absolute, no empty, "." or ".." component, no slash at the end.
bool IsCanonical(const std::string& name);

}  // namespace zlfs
