// Several threads write a real database over several mounts of a file-backed device. For each
// mount, the replay at the recorded setting must equal the ledger.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "replay/counterfactual.h"
#include "replay/model.h"
#include "replay/recorded.h"
#include "replay/trace.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb_api/open.h"
#include "zlfs/fs/file_system.h"
#include "zlfs/fs/ledger.h"

namespace zlfs::replay {
namespace {

constexpr int kThreads = 4;
constexpr int kKeys = 6000;

// Opens the database, writes every key once from several threads, and closes the database.
void Write(const std::string& uri, int round) {
  std::unique_ptr<rocksdb::FileSystem> fs;
  const IOStatus opened = OpenFileSystem(uri, &fs);
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  const std::shared_ptr<rocksdb::FileSystem> shared = std::move(fs);
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(shared);
  rocksdb::Options options;
  options.env = env.get();
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 1 << 20;
  options.target_file_size_base = 700 << 10;
  options.max_bytes_for_level_base = 2 << 20;
  options.max_background_jobs = 4;
  options.max_subcompactions = 2;
  std::unique_ptr<rocksdb::DB> db;
  const rocksdb::Status status = rocksdb_api::Open(&db, options, std::string("/db"));
  ASSERT_TRUE(status.ok()) << status.ToString();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&db, thread, round] {
      rocksdb::WriteOptions write;
      for (int i = thread; i < kKeys; i += kThreads) {
        const int key = (i * 7919 + round) % kKeys;
        write.sync = i % 50 == 0;
        const std::string value(2000, static_cast<char>('a' + (key + round) % 26));
        EXPECT_TRUE(db->Put(write, "key" + std::to_string(key), value).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ReplayOfADatabase, EqualsTheLedgerOfEachMount) {
  const std::string folder = testing::TempDir() + "zlfs-replay-db-" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string trace = folder + "/trace";
  const std::string uri = "zlfs://file:" + folder +
                          "/device?zones=80&zone_size=1M&max_active=9&aux=" + folder +
                          "/aux&finish_occupancy_pct=60&gc_start_pct=40&trace=" + trace;
  for (int round = 0; round < 3; ++round) Write(uri, round);
  std::vector<Mount> mounts;
  const IOStatus read = ReadTrace(trace, &mounts);
  ASSERT_TRUE(read.ok()) << read.ToString();
  ASSERT_EQ(mounts.size(), 3U);
  Model model;
  RecordedPlayer player(&model);
  for (const Mount& mount : mounts) {
    const IOStatus played = player.Play(mount);
    ASSERT_TRUE(played.ok()) << played.ToString();
    const nlohmann::json recorded = nlohmann::json::parse(mount.ledger);
    const nlohmann::json replayed = LedgerCounts(model.totals(), model.collected_zones(),
                                                 SpaceOf(model.allocator()), model.retired());
    for (const char* const cause : {"wal", "flush", "compaction", "other", "gc"}) {
      EXPECT_EQ(replayed["written"][cause], recorded["written"][cause]) << cause;
    }
    EXPECT_EQ(replayed["finishes"], recorded["finishes"]);
    EXPECT_EQ(replayed["resets"]["data"], recorded["resets"]["data"]);
    EXPECT_EQ(replayed["collected_zones"], recorded["collected_zones"]);
    EXPECT_EQ(replayed["space"], recorded["space"]);
    EXPECT_EQ(LedgerZones(model.allocator()), recorded["zones"]);
    EXPECT_GT(model.totals().finishes[0].count, 0U);
    EXPECT_GT(model.totals().resets_data, 0U);
  }
  // Replays all mounts at another setting. The user's bytes must not change.
  Model other;
  CounterfactualPlayer anew(&other);
  for (const Mount& mount : mounts) {
    Setting setting = SettingOf(mount);
    setting.zone_capacity /= 2;
    setting.zones *= 2;
    ASSERT_FALSE(anew.Play(mount, setting));
    EXPECT_EQ(other.totals().written[static_cast<std::size_t>(Cause::kWal)].payload,
              nlohmann::json::parse(mount.ledger)["written"]["wal"]["payload"]);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace zlfs::replay
