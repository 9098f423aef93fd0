// What differs between the RocksDB versions that zlfs compiles with (7.8 to 9.10).

#pragma once

#include "rocksdb/file_system.h"
#include "rocksdb/version.h"

#define ZLFS_ROCKSDB_AT_LEAST(major, minor) \
  (ROCKSDB_MAJOR > (major) || (ROCKSDB_MAJOR == (major) && ROCKSDB_MINOR >= (minor)))

namespace zlfs {

enum class Activity : std::uint8_t { kUnknown, kFlush, kCompaction };

// What RocksDB says it is doing. Up to 8.0 it does not say.
inline Activity ActivityOf([[maybe_unused]] const rocksdb::IOOptions& options) {
#if ZLFS_ROCKSDB_AT_LEAST(8, 1)
  if (options.io_activity == rocksdb::Env::IOActivity::kFlush) return Activity::kFlush;
  if (options.io_activity == rocksdb::Env::IOActivity::kCompaction) return Activity::kCompaction;
#endif
  return Activity::kUnknown;
}

}  // namespace zlfs
