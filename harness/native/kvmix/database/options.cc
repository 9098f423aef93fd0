#include "kvmix/database/options.h"

#include <unordered_map>

#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"

namespace kvmix {
namespace {

using rocksdb::Status;

// Maps db_bench's names of the compression algorithms to RocksDB's.
const std::map<std::string, rocksdb::CompressionType>& Compressions() {
  static const std::map<std::string, rocksdb::CompressionType> names = {
      {"none", rocksdb::kNoCompression},       {"snappy", rocksdb::kSnappyCompression},
      {"zlib", rocksdb::kZlibCompression},     {"bzip2", rocksdb::kBZip2Compression},
      {"lz4", rocksdb::kLZ4Compression},       {"lz4hc", rocksdb::kLZ4HCCompression},
      {"xpress", rocksdb::kXpressCompression}, {"zstd", rocksdb::kZSTD}};
  return names;
}

Status Set(const RocksFlag& flag, const std::string& value, rocksdb::Options* options) {
  rocksdb::ConfigOptions strict;
  strict.ignore_unknown_options = false;
  const std::unordered_map<std::string, std::string> setting = {{flag.option, value}};
  const Status status =
      flag.of_database
          ? rocksdb::GetDBOptionsFromMap(strict, rocksdb::DBOptions(*options), setting, options)
          : rocksdb::GetColumnFamilyOptionsFromMap(strict, rocksdb::ColumnFamilyOptions(*options),
                                                   setting, options);
  if (status.ok()) return status;
  return Status::InvalidArgument(std::string("--") + flag.name + "=" + value, status.ToString());
}

}  // namespace

const std::vector<RocksFlag>& RocksFlags() {
  static const std::vector<RocksFlag> flags = {
      {"write_buffer_size", "write_buffer_size", "67108864", false},
      {"max_write_buffer_number", "max_write_buffer_number", "2", false},
      {"min_write_buffer_number_to_merge", "min_write_buffer_number_to_merge", "1", false},
      {"target_file_size_base", "target_file_size_base", "67108864", false},
      {"target_file_size_multiplier", "target_file_size_multiplier", "1", false},
      {"max_bytes_for_level_base", "max_bytes_for_level_base", "268435456", false},
      {"max_bytes_for_level_multiplier", "max_bytes_for_level_multiplier", "10", false},
      {"level_compaction_dynamic_level_bytes", "level_compaction_dynamic_level_bytes", "false",
       false},
      {"num_levels", "num_levels", "7", false},
      {"level0_file_num_compaction_trigger", "level0_file_num_compaction_trigger", "4", false},
      {"level0_slowdown_writes_trigger", "level0_slowdown_writes_trigger", "20", false},
      {"level0_stop_writes_trigger", "level0_stop_writes_trigger", "36", false},
      {"soft_pending_compaction_bytes_limit", "soft_pending_compaction_bytes_limit", "68719476736",
       false},
      {"hard_pending_compaction_bytes_limit", "hard_pending_compaction_bytes_limit", "137438953472",
       false},
      {"max_compaction_bytes", "max_compaction_bytes", "0", false},
      {"disable_auto_compactions", "disable_auto_compactions", "false", false},
      {"delayed_write_rate", "delayed_write_rate", "0", true},
      {"max_background_jobs", "max_background_jobs", "2", true},
      {"subcompactions", "max_subcompactions", "1", true},
      {"open_files", "max_open_files", "-1", true},
      {"use_direct_reads", "use_direct_reads", "false", true},
      {"use_direct_io_for_flush_and_compaction", "use_direct_io_for_flush_and_compaction", "false",
       true},
      {"bytes_per_sync", "bytes_per_sync", "0", true},
      {"wal_bytes_per_sync", "wal_bytes_per_sync", "0", true},
      {"max_total_wal_size", "max_total_wal_size", "0", true},
  };
  return flags;
}

Status ToRocks(const DatabaseOptions& given, rocksdb::Options* options) {
  for (const RocksFlag& flag : RocksFlags()) {
    const auto entry = given.flags.find(flag.name);
    const std::string value = entry == given.flags.end() ? flag.fallback : entry->second;
    if (const Status status = Set(flag, value, options); !status.ok()) return status;
  }
  const auto compression = Compressions().find(given.compression_type);
  if (compression == Compressions().end()) {
    return Status::InvalidArgument("--compression_type=" + given.compression_type, "unknown");
  }
  options->compression = compression->second;
  options->create_if_missing = !given.use_existing_db;
  options->error_if_exists = !given.use_existing_db;
  if (given.statistics) options->statistics = rocksdb::CreateDBStatistics();
  rocksdb::BlockBasedTableOptions table;
  table.block_size = given.block_size;
  table.checksum = static_cast<rocksdb::ChecksumType>(given.checksum_type);
  if (given.cache_size > 0) {
    table.block_cache = rocksdb::NewLRUCache(static_cast<std::size_t>(given.cache_size));
  } else {
    table.no_block_cache = true;
  }
  if (given.bloom_bits > 0)
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(given.bloom_bits));
  options->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return Status::OK();
}

}  // namespace kvmix
