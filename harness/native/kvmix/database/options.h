// RocksDB's options as flags, with the names and defaults of db_bench.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace kvmix {

// A flag whose value RocksDB parses itself.
struct RocksFlag {
  const char* name;      // in db_bench
  const char* option;    // in RocksDB
  const char* fallback;  // db_bench's default; RocksDB's own default may differ
  bool of_database;      // a database option; otherwise a column family option
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
  std::int64_t cache_size = 32 << 20;  // bytes; 0: no block cache
  std::uint64_t block_size = 4096;
  double bloom_bits = -1;  // 0 or less: no filter
  int checksum_type = 4;   // rocksdb::ChecksumType: 0 none, …, 3 XXH64, 4 XXH3
  // Values from the command line, by flag name.
  std::map<std::string, std::string> flags;
};

// Converts the options to RocksDB's. Returns InvalidArgument for an invalid value; the message
// names the flag.
rocksdb::Status ToRocks(const DatabaseOptions& given, rocksdb::Options* options);

}  // namespace kvmix
