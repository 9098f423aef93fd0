// The database under torture: several column families on a zlfs, small enough that flushes,
// compactions and garbage collection happen all the time.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "zlfs/crash/model.h"

namespace zlfs::crash {

// Shared by the processes of a campaign; survives the death of those that write it.
struct Progress {
  // Operations of each writer that RocksDB acknowledged as durable.
  std::array<std::atomic<std::uint64_t>, kMaxWriters> synced;
  std::atomic<std::uint64_t> operations;                         // acknowledged, durable or not
  std::atomic<std::uint64_t> writes, flushes, finishes, resets;  // of the device
  std::atomic<std::uint64_t> collected;  // bytes the garbage collection copied in closed mounts
};

class Database {
 public:
  static rocksdb::Status Open(std::shared_ptr<rocksdb::FileSystem> file_system,
                              const LoadShape& shape, std::unique_ptr<Database>* database);
  ~Database();

  // Whether each writer's operations are there up to some number, at least the one that was synced,
  // and nothing else is. Corruption says what is wrong.
  rocksdb::Status Verify(std::span<const std::uint64_t> synced);

  // Goes on where Verify found the writers, in a new round: `operations` of each writer.
  rocksdb::Status Run(std::uint64_t operations, Progress* progress);

 private:
  Database(std::shared_ptr<rocksdb::FileSystem> file_system, const LoadShape& shape);

  rocksdb::Status VerifyFamily(std::uint32_t family, const std::vector<Model>& models);
  rocksdb::Status BeginRound(std::uint32_t writer);
  rocksdb::Status Write(std::uint32_t writer, std::uint64_t operations, Progress* progress);
  rocksdb::Status Do(std::uint32_t writer, std::uint64_t number, Progress* progress);
  rocksdb::Status DoAfter(const Operation& operation);

  const LoadShape shape_;
  const std::shared_ptr<rocksdb::FileSystem> file_system_;
  const std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;

  struct Writer {
    std::vector<std::uint64_t> rounds;
    std::atomic<std::uint64_t> done = 0;  // operations that RocksDB acknowledged
  };
  std::array<Writer, kMaxWriters> writers_;
};

}  // namespace zlfs::crash
