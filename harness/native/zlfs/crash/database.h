// The database under test: several column families on zlfs. It is so small that flushes,
// compactions and garbage collection happen constantly.

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

// Shared by the processes of a campaign. It survives the death of a process.
struct Progress {
  // Operations of each writer that are durable: RocksDB acknowledged a sync of them.
  std::array<std::atomic<std::uint64_t>, kMaxWriters> synced;
  // Operations of each writer that RocksDB acknowledged. A kill loses none of them.
  std::array<std::atomic<std::uint64_t>, kMaxWriters> acknowledged;
  std::atomic<std::uint64_t> operations;                         // acknowledged, durable or not
  std::atomic<std::uint64_t> writes, flushes, finishes, resets;  // device commands
  std::atomic<std::uint64_t> collected;  // bytes that the collector copied in closed mounts
};

class Database {
 public:
  static rocksdb::Status Open(std::shared_ptr<rocksdb::FileSystem> file_system,
                              const LoadShape& shape, std::unique_ptr<Database>* database);
  ~Database();

  // Checks that the database contains exactly a prefix of each writer's operations, and that each
  // prefix includes all synced operations. Returns Corruption if not.
  rocksdb::Status Verify(std::span<const std::uint64_t> synced);

  // Starts a new round after the operations that Verify found. Runs `operations` per writer.
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
