#include "zlfs/crash/database.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"
#include "rocksdb_api/open.h"

namespace zlfs::crash {
namespace {

using rocksdb::Slice;
using rocksdb::Status;

// Bookkeeping keys in the default column family; they sort before all other keys. Each operation
// updates its writer's operation count. The second key holds the starts of the writer's rounds.
std::string CountKey(std::uint32_t writer) { return "!" + std::to_string(writer); }
std::string RoundsKey(std::uint32_t writer) { return CountKey(writer) + ".rounds"; }

rocksdb::ColumnFamilyOptions FamilyOptions(std::uint32_t family) {
  rocksdb::ColumnFamilyOptions options;
  options.compression = rocksdb::kNoCompression;  // values are random
  options.write_buffer_size = 64 << 10;
  options.arena_block_size = 4 << 10;
  options.max_write_buffer_number = 3;
  options.level0_file_num_compaction_trigger = 2;
  options.target_file_size_base = 48 << 10;
  options.max_bytes_for_level_base = 128 << 10;
  options.max_bytes_for_level_multiplier = 4;
  // One family stores large values in blob files.
  options.enable_blob_files = family == 1;
  options.min_blob_size = 400;
  options.blob_file_size = 64 << 10;
  options.enable_blob_garbage_collection = true;
  options.blob_garbage_collection_age_cutoff = 1.0;
  options.blob_garbage_collection_force_threshold = 0.5;
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;  // verification must read from the device
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

rocksdb::DBOptions Options(rocksdb::Env* env) {
  rocksdb::DBOptions options;
  options.env = env;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.paranoid_checks = true;
  options.max_background_jobs = 3;
  options.max_open_files = 32;           // causes frequent opening and closing of files
  options.max_file_opening_threads = 1;  // more threads would dominate the cost of opening
  options.max_total_wal_size = 192 << 10;
  options.max_manifest_file_size = 16 << 10;  // causes replacements of CURRENT
  options.avoid_flush_during_recovery = false;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.keep_log_file_num = 1;
  options.info_log_level = rocksdb::ERROR_LEVEL;
  return options;
}

Status Wrong(const std::string& what) { return Status::Corruption("torture", what); }

void Raise(std::atomic<std::uint64_t>* value, std::uint64_t to) {
  std::uint64_t now = value->load();
  while (now < to && !value->compare_exchange_weak(now, to)) {
  }
}

}  // namespace

Database::Database(std::shared_ptr<rocksdb::FileSystem> file_system, const LoadShape& shape)
    : shape_(shape),
      file_system_(std::move(file_system)),
      env_(rocksdb::NewCompositeEnv(file_system_)) {}

Database::~Database() {
  for (rocksdb::ColumnFamilyHandle* family : families_) {
    db_->DestroyColumnFamilyHandle(family).PermitUncheckedError();
  }
}

Status Database::Open(std::shared_ptr<rocksdb::FileSystem> file_system, const LoadShape& shape,
                      std::unique_ptr<Database>* database) {
  std::unique_ptr<Database> opened(new Database(std::move(file_system), shape));
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (std::uint32_t family = 0; family < shape.families; ++family) {
    families.emplace_back(
        family == 0 ? rocksdb::kDefaultColumnFamilyName : "family" + std::to_string(family),
        FamilyOptions(family));
  }
  const Status status = rocksdb_api::Open(&opened->db_, Options(opened->env_.get()),
                                          std::string("/db"), families, &opened->families_);
  if (status.ok()) *database = std::move(opened);
  return status;
}

Status Database::Verify(std::span<const std::uint64_t> synced) {
  std::vector<Model> models;
  for (std::uint32_t writer = 0; writer < shape_.writers; ++writer) {
    std::string count;
    std::string rounds;
    Status status = db_->Get({}, CountKey(writer), &count);
    if (!status.ok() && !status.IsNotFound()) return status;
    status = db_->Get({}, RoundsKey(writer), &rounds);
    if (!status.ok() && !status.IsNotFound()) return status;
    const std::uint64_t found = count.empty() ? 0 : std::stoull(count);
    if (writer < synced.size() && found < synced[writer]) {
      return Wrong("writer " + std::to_string(writer) + ": " + std::to_string(synced[writer]) +
                   " operations were synced, " + std::to_string(found) + " are there");
    }
    Writer& state = writers_[writer];
    state.done = found;
    state.rounds.resize(rounds.size() / sizeof(std::uint64_t));
    std::memcpy(state.rounds.data(), rounds.data(), state.rounds.size() * sizeof(std::uint64_t));
    models.emplace_back(shape_, writer, state.rounds, found);
  }
  for (std::uint32_t family = 0; family < shape_.families; ++family) {
    if (Status status = VerifyFamily(family, models); !status.ok()) return status;
  }
  return Status::OK();
}

Status Database::VerifyFamily(std::uint32_t family, const std::vector<Model>& models) {
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}, families_[family]));
  at->Seek("w");  // skips the bookkeeping keys
  const auto where = [family](const std::string& key) {
    return key + " of family " + std::to_string(family);
  };
  for (std::uint32_t writer = 0; writer < shape_.writers; ++writer) {
    for (std::uint32_t key = 0; key < shape_.keys; ++key) {
      const Model::Slot& slot = models[writer].slot(family, key);
      if (slot.number == 0) continue;
      const std::string name = KeyName(writer, key);
      if (!at->Valid()) {
        return at->status().ok() ? Wrong(where(name) + " is lost, and all behind it")
                                 : at->status();
      }
      if (at->key() != Slice(name)) {
        return Wrong(where(name) + " of operation " + std::to_string(slot.number) +
                     " is expected, there is " + at->key().ToString());
      }
      if (at->value() != Slice(MakeValue(shape_, writer, family, key, slot.round, slot.number))) {
        const std::string value = at->value().ToString();
        return Wrong(where(name) + " is not of operation " + std::to_string(slot.number) +
                     ", round " + std::to_string(slot.round) + ", but " +
                     value.substr(0, value.find(':')));
      }
      at->Next();
    }
  }
  if (at->Valid()) return Wrong(where(at->key().ToString()) + " should not be there");
  return at->status();
}

Status Database::BeginRound(std::uint32_t writer) {
  Writer& state = writers_[writer];
  state.rounds.push_back(state.done + 1);
  rocksdb::WriteOptions options;
  options.sync = true;
  return db_->Put(options, RoundsKey(writer),
                  Slice(reinterpret_cast<const char*>(state.rounds.data()),
                        state.rounds.size() * sizeof(std::uint64_t)));
}

Status Database::Run(std::uint64_t operations, Progress* progress) {
  for (std::uint32_t writer = 0; writer < shape_.writers; ++writer) {
    if (Status status = BeginRound(writer); !status.ok()) return status;
  }
  std::vector<Status> results(shape_.writers);
  std::vector<std::thread> threads;
  for (std::uint32_t writer = 0; writer < shape_.writers; ++writer) {
    threads.emplace_back([this, writer, operations, progress, &results] {
      results[writer] = Write(writer, operations, progress);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) {
    if (!result.ok()) return result;
  }
  return Status::OK();
}

Status Database::Write(std::uint32_t writer, std::uint64_t operations, Progress* progress) {
  Status status;
  for (std::uint64_t i = 0; status.ok() && i < operations; ++i) {
    status = Do(writer, writers_[writer].done + 1, progress);
  }
  return status;
}

Status Database::Do(std::uint32_t writer, std::uint64_t number, Progress* progress) {
  Writer& self = writers_[writer];
  const std::uint64_t round = self.rounds.size() - 1;
  const Operation operation = MakeOperation(shape_, writer, round, number);
  rocksdb::WriteBatch batch;
  for (const Change& change : operation.changes) {
    const std::string key = KeyName(writer, change.key);
    rocksdb::ColumnFamilyHandle* const family = families_[change.family];
    const Status status =
        change.erase
            ? batch.Delete(family, key)
            : batch.Put(family, key,
                        MakeValue(shape_, writer, change.family, change.key, round, number));
    if (!status.ok()) return status;
  }
  if (Status status = batch.Put(CountKey(writer), std::to_string(number)); !status.ok()) {
    return status;
  }
  // A sync makes all writers' operations durable that were acknowledged before it began.
  std::array<std::uint64_t, kMaxWriters> before;
  const auto look = [this, &before] {
    std::transform(writers_.begin(), writers_.end(), before.begin(),
                   [](const Writer& other) { return other.done.load(); });
  };
  const auto acknowledge = [&before, progress] {
    for (std::uint32_t i = 0; i < kMaxWriters; ++i) Raise(&progress->synced[i], before[i]);
  };
  look();
  rocksdb::WriteOptions options;
  options.sync = operation.sync;
  if (Status status = db_->Write(options, &batch); !status.ok()) return status;
  self.done = number;
  Raise(&progress->acknowledged[writer], number);
  ++progress->operations;
  if (operation.sync) {
    before[writer] = number;
    acknowledge();
  }
  if (operation.after == After::kNothing) return Status::OK();
  look();
  const Status status = DoAfter(operation);
  if (status.ok() && operation.after != After::kCompact) acknowledge();
  return status;
}

Status Database::DoAfter(const Operation& operation) {
  switch (operation.after) {
    case After::kSyncWal:
      return db_->SyncWAL();
    case After::kFlushFamilies:
      return db_->Flush({}, families_);
    case After::kCompact:
      return db_->CompactRange({}, families_[operation.changes.front().family], nullptr, nullptr);
    case After::kNothing:
      break;
  }
  return Status::OK();
}

}  // namespace zlfs::crash
