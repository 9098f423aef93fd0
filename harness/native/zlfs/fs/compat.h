// What differs between the RocksDB versions that zlfs compiles with (7.8 to 9.10).

#pragma once

#include <optional>

#include "rocksdb/file_system.h"
#include "rocksdb/version.h"

#define ZLFS_ROCKSDB_AT_LEAST(major, minor) \
  (ROCKSDB_MAJOR > (major) || (ROCKSDB_MAJOR == (major) && ROCKSDB_MINOR >= (minor)))

namespace zlfs {

// Whether RocksDB says that it compacts, or that it flushes. Up to 8.0 it does not say.
inline std::optional<bool> Compacts([[maybe_unused]] const rocksdb::IOOptions& options) {
#if ZLFS_ROCKSDB_AT_LEAST(8, 1)
  if (options.io_activity == rocksdb::Env::IOActivity::kFlush) return false;
  if (options.io_activity == rocksdb::Env::IOActivity::kCompaction) return true;
#endif
  return std::nullopt;
}

}  // namespace zlfs
