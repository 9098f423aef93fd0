// RocksDB on zlfs, through RocksDB's public API. Covers many small files, replaced names, hard
// links, compactions during iteration, and nearly or completely full devices.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb_api/open.h"
#include "zlfs/fs/file_system.h"
#include "zlfs/tests/async_test_util.h"
#include "zlfs/tests/emulated_faults.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs {
namespace {

using rocksdb::ReadOptions;
using rocksdb::Status;
using rocksdb::WriteOptions;

constexpr std::size_t kValueBytes = 4000;

std::string Key(std::uint64_t i) {
  char text[24];
  std::snprintf(text, sizeof(text), "%016llu", static_cast<unsigned long long>(i));
  return text;
}

std::string Value(std::uint64_t i, std::uint64_t version) {
  return Content(i * 1000003 + version, 0, kValueBytes);
}

// A small database on a device in memory. The device outlives mounts.
class DatabaseTest : public testing::Test {
 protected:
  void Make(const std::string& shape) {
    device_ = MakeDevice(shape);
    identity_ = device_->geometry().identity;
    aux_ = testing::TempDir() + "zlfs-database-" + std::to_string(getpid()) + "-" + identity_;
    std::filesystem::remove_all(aux_);
    ASSERT_OK(Mkfs(device_.get(), Policy{}, ""));
    Mount();
  }

  IOStatus Open(OptionMap options, std::unique_ptr<rocksdb::FileSystem>* mounted) {
    options["aux"] = aux_;
    return OpenFileSystem(std::make_unique<HookedDevice>(device_, identity_, [] {}),
                          std::move(options), mounted);
  }

  void Mount(OptionMap options = {}) {
    before_ = device_->counters();
    std::unique_ptr<rocksdb::FileSystem> mounted;
    ASSERT_OK(Open(std::move(options), &mounted));
    file_system_ = std::move(mounted);
    env_ = rocksdb::NewCompositeEnv(file_system_);
  }

  // Ends the mount. Returns the last line of its ledger, which must agree with the device.
  nlohmann::json Unmount() {
    env_.reset();
    file_system_.reset();
    std::ifstream ledger(aux_ + "/ledger.jsonl");
    std::string line;
    std::string last;
    while (std::getline(ledger, line)) last = line;
    nlohmann::json totals = nlohmann::json::parse(last);
    EXPECT_EQ(totals["event"], "close");
    std::uint64_t bytes = 0;
    for (const auto& cause : totals["written"]) {
      bytes += cause["payload"].get<std::uint64_t>() + cause["pad"].get<std::uint64_t>();
    }
    EXPECT_EQ(bytes, device_->counters().bytes_written - before_.bytes_written);
    return totals;
  }

  void TearDown() override {
    db_.reset();
    env_.reset();
    file_system_.reset();
    std::filesystem::remove_all(aux_);
  }

  rocksdb::Options Options() const {
    rocksdb::Options options;
    options.env = env_.get();
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.write_buffer_size = memtable_;
    options.target_file_size_base = table_;
    options.max_bytes_for_level_base = 1 << 20;
    options.level_compaction_dynamic_level_bytes = true;  // keeps few bytes besides the live data
    options.level0_file_num_compaction_trigger = 2;
    options.level0_slowdown_writes_trigger = slowdown_;  // otherwise writers outrun compactions
    options.level0_stop_writes_trigger = slowdown_ + 2;
    options.max_background_jobs = 4;
    options.info_log_level = rocksdb::ERROR_LEVEL;  // the info log would add to the utilisation
    options.disable_auto_compactions = !compacts_;
    options.keep_log_file_num = 1;
    if (listener_ != nullptr) options.listeners.push_back(listener_);
    return options;
  }

  Status Open(const std::string& name = "/db") { return rocksdb_api::Open(&db_, Options(), name); }

  void Fill(std::uint64_t from, std::uint64_t to, std::uint64_t version) {
    for (std::uint64_t i = from; i < to; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), Key(i), Value(i, version)));
    }
  }

  // Checks that the database contains exactly the model's keys.
  void Verify(const std::vector<std::uint64_t>& versions) {
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(ReadOptions()));
    at->SeekToFirst();
    for (std::uint64_t i = 0; i < versions.size(); ++i) {
      ASSERT_TRUE(at->Valid()) << at->status().ToString();
      ASSERT_EQ(at->key(), Key(i));
      ASSERT_TRUE(at->value() == Value(i, versions[i])) << Key(i);
      at->Next();
    }
    ASSERT_FALSE(at->Valid());
    ASSERT_OK(at->status());
  }

  void WaitForCompactions() {
    for (const char* const what :
         {"rocksdb.compaction-pending", "rocksdb.num-running-compactions"}) {
      std::uint64_t some = 1;
      while (db_->GetIntProperty(what, &some) && some > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  std::uint64_t Capacity() const {
    return (device_->geometry().zone_count - kMetadataZones) * InfoOf(*device_, 0).capacity;
  }

  double Utilisation() {
    std::uint64_t free = 0;
    EXPECT_OK(file_system_->GetFreeSpace("/", rocksdb::IOOptions(), &free, nullptr));
    return 1 - static_cast<double>(free) / static_cast<double>(Capacity());
  }

  std::size_t memtable_ = 256 << 10;
  std::size_t table_ = 256 << 10;
  int slowdown_ = 4;
  bool compacts_ = true;
  std::shared_ptr<rocksdb::EventListener> listener_;
  std::shared_ptr<EmulatedDevice> device_;
  std::string identity_;
  Counters before_;
  std::string aux_;
  std::shared_ptr<rocksdb::FileSystem> file_system_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
};

// A slowed modelled drive needs a line per second of the drive, not of this machine.
TEST_F(DatabaseTest, TheLedgerHasALinePerInterval) {
  Make("zones=64&zone_size=1M&max_active=14");
  std::unique_ptr<rocksdb::FileSystem> refused;
  for (const char* const bad : {"0", "3601", "1.5", ""}) {
    EXPECT_TRUE(Open({{"ledger_seconds", bad}}, &refused).IsInvalidArgument()) << bad;
  }
  const auto has_line = [this] {
    std::ifstream ledger(aux_ + "/ledger.jsonl");
    std::string line;
    return static_cast<bool>(std::getline(ledger, line));
  };
  const auto mount = [this](const char* seconds) {
    Unmount();
    std::filesystem::remove(aux_ + "/ledger.jsonl");
    Mount({{"ledger_seconds", seconds}});
  };
  mount("1");
  while (!has_line()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  mount("3600");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_FALSE(has_line());
}

TEST_F(DatabaseTest, ManySmallFilesAndReplacedNames) {
  Make("zones=64&zone_size=1M&max_active=8");
  constexpr int kFiles = 2000;
  ASSERT_OK(env_->CreateDir("/many"));
  for (int i = 0; i < kFiles; ++i) {
    ASSERT_OK(rocksdb::WriteStringToFile(env_.get(), Content(static_cast<std::uint64_t>(i), 0, 100),
                                         "/many/" + std::to_string(i), i % 50 == 0));
  }
  // Renames each file of the second half to the name of a file of the first half.
  for (int i = 0; i < kFiles / 2; ++i) {
    ASSERT_OK(
        env_->RenameFile("/many/" + std::to_string(i + kFiles / 2), "/many/" + std::to_string(i)));
  }
  std::unique_ptr<rocksdb::Directory> directory;
  ASSERT_OK(env_->NewDirectory("/many", &directory));
  ASSERT_OK(directory->Fsync());
  directory.reset();
  Unmount();
  Mount();
  std::vector<std::string> children;
  ASSERT_OK(env_->GetChildren("/many", &children));
  std::erase_if(children, [](const std::string& name) { return name.starts_with('.'); });
  EXPECT_EQ(children.size(), kFiles / 2);
  for (int i = 0; i < kFiles / 2; ++i) {
    std::string content;
    ASSERT_OK(rocksdb::ReadFileToString(env_.get(), "/many/" + std::to_string(i), &content));
    // A crash could lose renames that are not durable; a clean end loses none.
    ASSERT_EQ(content, Content(static_cast<std::uint64_t>(i + kFiles / 2), 0, 100));
  }
  ASSERT_OK(env_->LinkFile("/many/1", "/many/link"));
  EXPECT_TRUE(env_->LinkFile("/many/1", "/many/link").IsIOError());
  EXPECT_TRUE(env_->LinkFile("/many/1", "/many/LOG").IsNotSupported());
  std::uint64_t names = 0;
  ASSERT_OK(env_->NumFileLinks("/many/link", &names));
  EXPECT_EQ(names, 2U);
  bool same = false;
  ASSERT_OK(env_->AreFilesSame("/many/1", "/many/link", &same));
  EXPECT_TRUE(same);
  ASSERT_OK(env_->AreFilesSame("/many/1", "/many/2", &same));
  EXPECT_FALSE(same);
}

TEST_F(DatabaseTest, CompactionsBeneathIterators) {
  Make("zones=128&zone_size=1M&zone_capacity=896K&max_active=10");
  ASSERT_OK(Open());
  constexpr std::uint64_t kKeys = 2000;
  Fill(0, kKeys, 0);
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      while (!stop) {
        // All keys are present, each with an intact value of any version.
        const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(ReadOptions()));
        std::uint64_t i = 0;
        for (at->SeekToFirst(); at->Valid(); at->Next(), ++i) {
          const bool known =
              at->key() == Key(i) && (at->value() == Value(i, 0) || at->value() == Value(i, 1) ||
                                      at->value() == Value(i, 2));
          EXPECT_TRUE(known) << at->key().ToString();
        }
        EXPECT_OK(at->status());
        EXPECT_EQ(i, kKeys);
      }
    });
  }
  std::thread compactor([&] {
    while (!stop) EXPECT_OK(db_->CompactRange({}, nullptr, nullptr));
  });
  for (std::uint64_t version = 1; version <= 2; ++version) Fill(0, kKeys, version);
  stop = true;
  compactor.join();
  for (std::thread& reader : readers) reader.join();
  Verify(std::vector<std::uint64_t>(kKeys, 2));
  db_.reset();
  EXPECT_GT(Unmount()["written"]["compaction"]["payload"], 0);
}

TEST_F(DatabaseTest, ACheckpointLinksAndABackupCopies) {
  Make("zones=128&zone_size=1M&max_active=10");
  ASSERT_OK(Open());
  constexpr std::uint64_t kKeys = 2500;
  Fill(0, kKeys, 0);
  ASSERT_OK(db_->Flush({}));
  const std::vector<std::uint64_t> versions(kKeys, 0);
  const auto written = [this] { return device_->counters().bytes_written; };

  std::uint64_t before = written();
  rocksdb::Checkpoint* made = nullptr;
  ASSERT_OK(rocksdb::Checkpoint::Create(db_.get(), &made));
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  ASSERT_OK(checkpoint->CreateCheckpoint("/checkpoint"));
  EXPECT_LT(written() - before, kKeys * kValueBytes / 20);

  before = written();
  rocksdb::BackupEngine* opened = nullptr;
  ASSERT_OK(rocksdb::BackupEngine::Open(
      env_.get(), rocksdb::BackupEngineOptions("/backup", env_.get()), &opened));
  std::unique_ptr<rocksdb::BackupEngine> backup(opened);
  ASSERT_OK(backup->CreateNewBackup(db_.get()));
  EXPECT_GT(written() - before, kKeys * kValueBytes);
  db_.reset();
  ASSERT_OK(backup->RestoreDBFromLatestBackup("/restored", "/restored"));
  backup.reset();
  // The tables of the checkpoint outlive the database that it was made of.
  ASSERT_OK(Open());
  for (std::uint64_t i = 0; i < kKeys; ++i)
    ASSERT_OK(db_->Put(WriteOptions(), Key(i), Value(i, 1)));
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  db_.reset();
  Unmount();  // compares the ledger with the device
  Mount();
  for (const char* const name : {"/checkpoint", "/restored"}) {
    ASSERT_OK(Open(name)) << name;
    Verify(versions);
  }
}

TEST_F(DatabaseTest, KeepsRunningAtNinetyPercent) {
  Make("zones=160&zone_size=1M&zone_capacity=896K&max_active=10");
  ASSERT_OK(Open());
  std::vector<std::uint64_t> versions;
  // Compacts while filling, so that all data is live. Overwriting later adds at least a tenth for
  // the upper levels, and the outputs of compactions before their inputs are deleted.
  while (Utilisation() < 0.805) {
    const std::uint64_t from = versions.size();
    Fill(from, from + 250, 0);
    versions.resize(from + 250);
    ASSERT_OK(db_->Flush({}));
    WaitForCompactions();
  }
  // A twentieth of the keys is hot; the rest rarely changes.
  std::mt19937_64 random(5);
  double most = 0;
  for (std::uint64_t i = 1; i <= 12000; ++i) {
    const std::uint64_t keys = random() % 20 == 0 ? versions.size() : versions.size() / 20;
    const std::uint64_t key = random() % keys;
    ASSERT_OK(db_->Put(WriteOptions(), Key(key), Value(key, i))) << i << " at " << Utilisation();
    versions[key] = i;
    if (i % 50 == 0) most = std::max(most, Utilisation());
    // Otherwise the backlog of compactions on a slow machine fills the device. It is full at 0.96.
    if (i % 250 == 0) WaitForCompactions();
  }
  std::printf("utilisation at most %.3f\n", most);
  EXPECT_GE(most, 0.9);
  Verify(versions);
  db_.reset();
  EXPECT_GT(Unmount()["written"]["gc"]["payload"], 0);
  Mount();
  ASSERT_OK(Open());
  Verify(versions);
}

// --- unsynced writes after a kill ---

TEST_F(DatabaseTest, AKillLosesNoAcknowledgedWrite) {
  memtable_ = 256 << 10;  // several WALs
  compacts_ = false;
  Make("zones=64&zone_size=1M&max_active=14");
  ASSERT_OK(Open());
  constexpr std::uint64_t kKeys = 300;
  Fill(0, kKeys, 0);
  ASSERT_OK(db_->PauseBackgroundWork());
  std::unique_ptr<EmulatedDevice> killed;
  ASSERT_OK(EmulatedFaults::Clone(*device_, identity_ + "-killed", &killed));
  const std::string tails = aux_ + "-killed";
  std::filesystem::copy(aux_ + "/tails", tails, std::filesystem::copy_options::recursive);
  ASSERT_OK(db_->ContinueBackgroundWork());
  db_.reset();
  // Unsynced writes wait in the auxiliary directory until there is enough for the device.
  const nlohmann::json wal = Unmount()["written"]["wal"];
  EXPECT_GT(wal["payload"].get<std::uint64_t>(), kKeys * kValueBytes);
  EXPECT_LT(wal["pad"].get<std::uint64_t>(), kKeys * kValueBytes / 8);
  device_ = std::move(killed);
  std::filesystem::remove_all(aux_ + "/tails");
  std::filesystem::rename(tails, aux_ + "/tails");
  Mount();
  ASSERT_OK(Open());
  Verify(std::vector<std::uint64_t>(kKeys, 0));
}

// RocksDB calls RangeSync for wal_bytes_per_sync, also when manual_wal_flush leaves out Flush.
TEST_F(DatabaseTest, RangeSyncHandsAWalToTheDevice) {
  Make("zones=64&zone_size=1M&max_active=14");
  std::unique_ptr<rocksdb::FSWritableFile> log;
  ASSERT_OK(file_system_->NewWritableFile("/1.log", {}, &log, nullptr));
  ASSERT_OK(log->Append(Content(1, 0, 5000), {}, nullptr));
  ASSERT_OK(log->RangeSync(0, 5000, {}, nullptr));
  std::unique_ptr<EmulatedDevice> killed;
  ASSERT_OK(EmulatedFaults::Clone(*device_, identity_ + "-killed", &killed));
  const auto after = MountOk(std::make_unique<HookedDevice>(std::move(killed), identity_, [] {}));
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(ReadWhole(after.get(), "/1.log"), Content(1, 0, 5000));
  ASSERT_OK(log->Close({}, nullptr));
}

// --- reads ---

// Counts reads. Can hold reads back until several are there.
class ReadingDevice final : public ForwardingDevice {
 public:
  explicit ReadingDevice(std::shared_ptr<EmulatedDevice> inner)
      : ForwardingDevice(inner.get()), owned_(std::move(inner)) {
    geometry_.waits = true;
  }
  void HoldUntil(std::size_t together) {
    const std::lock_guard lock(mutex_);
    together_ = together;
    waiting_ = 0;
    changed_.notify_all();
  }
  std::uint64_t reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  // Reads in this thread.
  std::uint64_t own_reads() {
    const std::lock_guard lock(mutex_);
    return by_thread_[std::this_thread::get_id()];
  }

 private:
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override {
    std::unique_lock lock(mutex_);
    ++reads_;
    ++by_thread_[std::this_thread::get_id()];
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return waiting_ >= together_; });
    lock.unlock();
    return inner_->Read(zone, offset, size, buffer);
  }

  const std::shared_ptr<EmulatedDevice> owned_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::size_t together_ = 0;
  std::size_t waiting_ = 0;
  std::uint64_t reads_ = 0;
  std::map<std::thread::id, std::uint64_t> by_thread_;
};

class ReadingTest : public DatabaseTest {
 protected:
  ReadingDevice* MakeReading() {
    Make("zones=64&zone_size=1M&max_active=14");
    env_.reset();
    file_system_.reset();
    auto owned = std::make_unique<ReadingDevice>(device_);
    ReadingDevice* const device = owned.get();
    std::unique_ptr<rocksdb::FileSystem> mounted;
    EXPECT_OK(OpenFileSystem(std::move(owned), {{"aux", aux_}}, &mounted));
    file_system_ = std::move(mounted);
    env_ = rocksdb::NewCompositeEnv(file_system_);
    return device;
  }

  std::unique_ptr<rocksdb::FSRandomAccessFile> FileOf(std::size_t size) {
    std::unique_ptr<rocksdb::FSWritableFile> writer;
    EXPECT_OK(file_system_->NewWritableFile("/1.sst", {}, &writer, nullptr));
    EXPECT_OK(writer->Append(Content(1, 0, size), {}, nullptr));
    EXPECT_OK(writer->Close({}, nullptr));
    std::unique_ptr<rocksdb::FSRandomAccessFile> reader;
    EXPECT_OK(file_system_->NewRandomAccessFile("/1.sst", {}, &reader, nullptr));
    return reader;
  }
};

TEST_F(ReadingTest, MultiReadReadsInParallel) {
  ReadingDevice* const device = MakeReading();
  const auto reader = FileOf(200000);
  constexpr std::size_t kTogether = 8;  // a serial MultiRead never returns
  for (int round = 0; round < 20; ++round) {
    device->HoldUntil(kTogether);
    std::vector<std::string> buffers(64, std::string(3000, '\0'));
    std::vector<rocksdb::FSReadRequest> requests(buffers.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].offset = i * 3100;
      requests[i].len = 3000;
      requests[i].scratch = buffers[i].data();
    }
    ASSERT_OK(reader->MultiRead(requests.data(), requests.size(), {}, nullptr));
    for (const rocksdb::FSReadRequest& one : requests) {
      ASSERT_OK(one.status);
      const std::size_t size = std::min<std::size_t>(3000, 200000 - one.offset);
      ASSERT_EQ(one.result.ToString(), Content(1, one.offset, size));
    }
  }
  device->HoldUntil(0);
}

TEST_F(ReadingTest, CompactionsReadAhead) {
  compacts_ = false;
  ReadingDevice* const device = MakeReading();
  ASSERT_OK(Open());
  Fill(0, 1000, 0);  // 4 MB
  ASSERT_OK(db_->Flush({}));
  Fill(0, 1000, 1);
  ASSERT_OK(db_->Flush({}));
  const std::uint64_t before = device->reads();
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  EXPECT_LT(device->reads() - before, 300U);  // of more than 2000 blocks
  Verify(std::vector<std::uint64_t>(1000, 1));
}

TEST_F(ReadingTest, ReadAsyncReadsInParallelAndPollReportsEachReadOnce) {
  ReadingDevice* const device = MakeReading();
  const auto reader = FileOf(200000);
  constexpr std::size_t kTogether = 8;  // a ReadAsync that reads itself never returns
  device->HoldUntil(kTogether);
  std::vector<Begun> reads(kTogether);
  std::vector<void*> handles;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    ASSERT_OK(reads[i].Begin(reader.get(), i * 28000, 5000));
    ASSERT_NE(reads[i].handle, nullptr);
    handles.push_back(reads[i].handle);
  }
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(file_system_->Poll(handles, handles.size()));
  }
  ASSERT_OK(file_system_->AbortIO(handles));  // these reads have ended
  for (std::size_t i = 0; i < reads.size(); ++i) {
    EXPECT_EQ(reads[i].calls, 1);
    EXPECT_OK(reads[i].status);
    EXPECT_EQ(reads[i].result,
              Content(1, i * 28000, std::min<std::size_t>(5000, 200000 - i * 28000)));
  }
  device->HoldUntil(0);
}

TEST_F(ReadingTest, AnAbortedReadNeverFillsItsBufferLater) {
  ReadingDevice* const device = MakeReading();
  const auto reader = FileOf(200000);
  constexpr std::size_t kReads = 40;  // more than the pool has threads
  device->HoldUntil(kReads);
  const std::uint64_t before = device->reads();
  {
    std::vector<Begun> reads(kReads);
    std::vector<void*> handles;
    for (std::size_t i = 0; i < kReads; ++i) {
      ASSERT_OK(reads[i].Begin(reader.get(), i * 1000, 1000));
      handles.push_back(reads[i].handle);
    }
    // Reads that no thread took end at once.
    std::vector<void*> waiting(handles.begin() + kReads / 2, handles.end());
    ASSERT_OK(file_system_->AbortIO(waiting));
    device->HoldUntil(0);
    ASSERT_OK(file_system_->AbortIO(handles));
    for (std::size_t i = 0; i < kReads; ++i) {
      EXPECT_EQ(reads[i].calls, 1);
      EXPECT_TRUE(reads[i].status.IsAborted());
    }
    const std::string untouched(1000, '\0');
    for (std::size_t i = kReads / 2; i < kReads; ++i) EXPECT_EQ(reads[i].buffer, untouched);
  }
  EXPECT_LE(device->reads() - before, kReads / 2);
}

// Iterators with async_io read ahead in the background. MultiGet reads its blocks in parallel.
TEST_F(ReadingTest, IteratorsAndMultiGetWithAsyncIo) {
  compacts_ = false;
  ReadingDevice* const device = MakeReading();
  constexpr std::uint64_t kKeys = 1000;  // 4 MB
  ASSERT_OK(Open());
  Fill(0, kKeys, 0);
  ASSERT_OK(db_->Flush({}));
  ReadOptions options;
  options.async_io = true;
  options.fill_cache = false;
  options.readahead_size = 256 << 10;
  const std::uint64_t reads = device->reads();
  const std::uint64_t own = device->own_reads();
  const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(options));
  std::uint64_t i = 0;
  const auto ahead = [&] { return (device->reads() - reads) - (device->own_reads() - own); };
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++i) {
    ASSERT_EQ(iterator->key().ToString(), Key(i));
    ASSERT_TRUE(iterator->value() == Value(i, 0)) << i;
    if (i % 100 != 50) continue;
    // On a busy host this thread can be faster than those that read ahead.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (ahead() <= i / 150 && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
    }
  }
  EXPECT_OK(iterator->status());
  EXPECT_EQ(i, kKeys);
  EXPECT_GT(ahead(), 5U);
  EXPECT_LT(device->reads() - reads, 100U);  // of 1000 blocks

  // An iterator that moves to another key aborts its reads ahead.
  for (std::uint64_t key = 0; key < kKeys; key += 37) {
    iterator->Seek(Key(key));
    for (std::uint64_t next = key; next < std::min(key + 5, kKeys); ++next, iterator->Next()) {
      ASSERT_TRUE(iterator->Valid());
      ASSERT_TRUE(iterator->value() == Value(next, 0)) << next;
    }
  }

  std::vector<std::string> names;
  for (std::uint64_t key = 0; key < kKeys; key += 16) names.push_back(Key(key));
  const std::vector<rocksdb::Slice> keys(names.begin(), names.end());
  std::vector<std::string> values;
  const std::vector<Status> statuses = db_->MultiGet(options, keys, &values);
  for (std::size_t k = 0; k < keys.size(); ++k) {
    ASSERT_OK(statuses[k]);
    EXPECT_TRUE(values[k] == Value(k * 16, 0)) << k;
  }
}

TEST_F(ReadingTest, ADeviceInMemoryReadsAtOnce) {
  Make("zones=64&zone_size=1M&max_active=14");
  const auto reader = FileOf(5000);
  Begun read;
  ASSERT_OK(read.Begin(reader.get(), 100, 1000));
  EXPECT_EQ(read.handle, nullptr);
  EXPECT_EQ(read.calls, 1);
  EXPECT_EQ(read.result, Content(1, 100, 1000));
}

struct Full {
  const char* shape;
  std::size_t memtable;
  bool shuffled;  // keys arrive out of order, so that compactions have work
};

// From 8.7 on, RocksDB can wait for ever in a recovery from a full device: a writer waits for the
// recovery, and the recovery's flush waits for the writer.
class WithoutRecovery : public rocksdb::EventListener {
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, Status, bool* automatic) override {
    *automatic = false;
  }
};

class FullDatabase : public DatabaseTest, public testing::WithParamInterface<Full> {
 protected:
  std::uint64_t Number(std::uint64_t i) const {
    return GetParam().shuffled ? i / 256 * 256 + i * 37 % 256 : i;
  }

  // Writes until there is no space. Keys below `*synced` are durable.
  std::uint64_t FillUp(std::uint64_t from, std::uint64_t version, std::uint64_t* synced) {
    Status status;
    std::uint64_t i = from;
    for (WriteOptions durable; status.ok() && !HasFailure(); ++i) {
      durable.sync = i % 16 == 0;
      status = db_->Put(durable, Key(Number(i)), Value(i, version));
      if (status.ok() && durable.sync) *synced = i + 1;
      EXPECT_LT(i * kValueBytes, 96U << 20) << "more than the device holds";
    }
    // The status can be Incomplete if RocksDB was waiting for a flush that found no space.
    EXPECT_NE(status.ToString().find("No space left"), std::string::npos) << status.ToString();
    return i;
  }

  void VerifyUpTo(std::uint64_t synced) {
    for (std::uint64_t i = 0; i < synced; ++i) {
      std::string value;
      ASSERT_OK(db_->Get(ReadOptions(), Key(Number(i)), &value)) << i << " of " << synced;
      ASSERT_TRUE(value == Value(i, 0)) << i;
    }
  }
};

TEST_P(FullDatabase, ReportsNoSpaceAndOpensAgain) {
  memtable_ = GetParam().memtable;
  table_ = std::min<std::size_t>(memtable_, 64 << 10);
  slowdown_ = 1000;  // otherwise RocksDB stalls writers until a compaction has space
  listener_ = std::make_shared<WithoutRecovery>();
  Make(GetParam().shape);
  // A compaction needs space for its output: at most half the keys, as the other half is deleted.
  const std::string ballast(Capacity() / 3, 'b');
  ASSERT_OK(rocksdb::WriteStringToFile(env_.get(), ballast, "/ballast", true));
  ASSERT_OK(Open());
  std::uint64_t synced = 0;
  const std::uint64_t written = FillUp(0, 0, &synced);
  ASSERT_FALSE(HasFailure());
  std::printf("full at %.3f with %lu keys\n", Utilisation(), written);

  // Simulates a kill: opens a copy of the device.
  std::unique_ptr<EmulatedDevice> killed;
  // Compactions pause, because the copy would contain only part of their concurrent writes.
  ASSERT_OK(db_->PauseBackgroundWork());
  ASSERT_OK(EmulatedFaults::Clone(*device_, identity_ + "-killed", &killed));
  ASSERT_OK(db_->ContinueBackgroundWork());
  db_.reset();
  Unmount();
  const std::shared_ptr<EmulatedDevice> closed = std::exchange(device_, std::move(killed));
  for (const bool again : {false, true}) {
    Mount();
    ASSERT_OK(Open()) << "killed, again " << again;
    VerifyUpTo(synced);
    ASSERT_FALSE(HasFailure());
    db_.reset();
    Unmount();
  }

  // Opens the cleanly closed device. It accepts writes after deletions and can be filled again.
  device_ = closed;
  compacts_ = false;  // a background compaction without space would make the manual one below fail
  Mount();
  ASSERT_OK(Open());
  VerifyUpTo(synced);
  ASSERT_OK(env_->DeleteFile("/ballast"));
  const std::string half = Key(written / 2);
  const rocksdb::Slice end = half;
  ASSERT_OK(rocksdb::DeleteFilesInRange(db_.get(), db_->DefaultColumnFamily(), nullptr, &end));
  ASSERT_OK(db_->DeleteRange(WriteOptions(), db_->DefaultColumnFamily(), Key(0), half));
  ASSERT_OK(db_->Flush({}));
  ASSERT_OK(db_->CompactRange({}, nullptr, &end));
  ASSERT_OK(db_->EnableAutoCompaction({db_->DefaultColumnFamily()}));
  const std::uint64_t refilled = FillUp(written, 1, &synced) - written;
  std::printf("full again after %lu keys\n", refilled);
  EXPECT_GT(refilled, written / 2);
  db_.reset();
  Unmount();
  Mount();
  ASSERT_OK(Open());
  for (std::uint64_t i = written; i < synced; ++i) {
    std::string value;
    ASSERT_OK(db_->Get(ReadOptions(), Key(Number(i)), &value)) << i;
    ASSERT_TRUE(value == Value(i, 1)) << i;
  }
  db_.reset();
  Unmount();
  EXPECT_EQ(Violations(device_.get()), "");
}

constexpr const char* kTiny = "zones=48&zone_size=128K&zone_capacity=96K&max_active=8";
constexpr const char* kFew = "zones=64&zone_size=1M&max_active=8";
constexpr const char* kMany = "zones=64&zone_size=1M&max_active=14";
constexpr Full kFull[] = {
    {kTiny, 64 << 10, false}, {kTiny, 64 << 10, true},   // memtables smaller than a zone
    {kTiny, 96 << 10, true},  {kTiny, 256 << 10, true},  // as large, and larger
    {kFew, 128 << 10, true},  {kFew, 1 << 20, true},    {kMany, 1 << 20, false},
    {kMany, 1 << 20, true},   {kMany, 4 << 20, true},
};
INSTANTIATE_TEST_SUITE_P(Shapes, FullDatabase, testing::ValuesIn(kFull));

}  // namespace
}  // namespace zlfs
