// RocksDB's options as flags: the names and the defaults are those of db_bench.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace kvmix {

// A flag that RocksDB itself reads, by its own name.
struct RocksFlag {
  const char* name;      // db_bench's
  const char* option;    // RocksDB's
  const char* fallback;  // db_bench's default; written down where RocksDB's own changed
  bool of_database;      // else of the column family
};
const std::vector<RocksFlag>& RocksFlags();

struct DatabaseOptions {
  std::string db;
  std::string fs_uri;
  bool use_existing_db = false;
  bool statistics = false;
  bool sync = false;
  bool disable_wal = false;
  std::string compression_type = "snappy";
  std::int64_t cache_size = 32 << 20;  // 0: no block cache
  std::uint64_t block_size = 4096;
  double bloom_bits = -1;  // 0 or less: no filter
  int checksum_type = 4;   // rocksdb::ChecksumType: 0 none, …, 3 XXH64, 4 XXH3
  // Given values by flag name.
  std::map<std::string, std::string> flags;
};

// Turns them into RocksDB's. InvalidArgument: a value is none; its message names the flag.
rocksdb::Status ToRocks(const DatabaseOptions& given, rocksdb::Options* options);

}  // namespace kvmix
