// The name space that records describe: replayed from the metadata log, completed from the pieces
// of log zones. Plain data; a mounted volume, the reading tools and the check all begin with it.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rocksdb/io_status.h"
#include "zlfs/format/record.h"

namespace zlfs {

struct FileInfo {
  std::uint64_t id = 0;
  FileKind kind = FileKind::kData;
  std::string name = {};
  std::uint64_t modified = 0;
  std::uint8_t lifetime = 0;
  std::uint64_t size = 0;  // sum of the extents' lengths
  std::vector<Extent> extents = {};
};

struct RecoveredFile : FileInfo {
  std::vector<std::uint64_t> frames;  // that said so, of each extent; pieces: 0

  // Keeps the first `size` bytes.
  void Cut(std::uint64_t new_size);
  void Append(const Extent& extent, std::uint64_t frame);
};

struct Namespace {
  bool whole = false;  // all of the snapshot was replayed
  std::uint64_t next_file = 1;
  TotalsRecord totals;
  std::map<std::uint64_t, RecoveredFile> files;
  std::map<std::string, std::uint64_t> names;        // of `files`
  std::map<std::uint32_t, std::uint64_t> log_zones;  // zone -> offset where the pieces begin

  // Errors: "corrupt-record", with what is wrong.
  rocksdb::IOStatus Apply(const Record& record, std::uint64_t frame);
};

// A name in the name space: absolute, no empty, "." or ".." component, no slash at the end.
bool IsCanonical(const std::string& name);

}  // namespace zlfs
