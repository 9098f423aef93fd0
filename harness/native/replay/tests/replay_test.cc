// A load of several threads with garbage collection replays to the byte. Damaged traces are
// refused. Replays at other settings change the counts as expected.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "replay/counterfactual.h"
#include "replay/model.h"
#include "replay/recorded.h"
#include "replay/trace.h"
#include "zlfs/fs/file_system.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs::replay {
namespace {

using rocksdb::FileOptions;
using rocksdb::FileSystem;
using rocksdb::IOOptions;

constexpr const char* kShape = "zones=48&zone_size=256K&zone_capacity=192K&max_active=14";
constexpr int kWriters = 3;
constexpr int kFilesEach = 300;
constexpr std::size_t kKept = 30;  // live files per writer; two thirds of the device
constexpr std::size_t kMaxFile = 128 << 10;

void WriteFile(FileSystem* fs, const std::string& name, std::size_t size, std::mt19937_64* random) {
  std::unique_ptr<rocksdb::FSWritableFile> file;
  ASSERT_OK(fs->NewWritableFile(name, FileOptions(), &file, nullptr));
  file->SetWriteLifeTimeHint(static_cast<rocksdb::Env::WriteLifeTimeHint>(2 + (*random)() % 3));
  file->SetIOPriority((*random)() % 2 == 0 ? rocksdb::Env::IO_HIGH : rocksdb::Env::IO_LOW);
  for (std::size_t done = 0; done < size;) {
    const std::size_t n = std::min<std::size_t>(size - done, 1 + (*random)() % 20000);
    ASSERT_OK(file->Append(Content(1, done, n), IOOptions(), nullptr));
    done += n;
    if ((*random)() % 4 != 0) continue;
    ASSERT_OK(file->Sync(IOOptions(), nullptr));
  }
  ASSERT_OK(file->Fsync(IOOptions(), nullptr));
  ASSERT_OK(file->Close(IOOptions(), nullptr));
}

void WriteTables(FileSystem* fs, int number) {
  std::mt19937_64 random(static_cast<std::uint64_t>(number));
  std::deque<std::string> kept;
  for (int i = 0; i < kFilesEach; ++i) {
    kept.push_back("/" + std::to_string(number) + "-" + std::to_string(i) + ".sst");
    WriteFile(fs, kept.back(), 1 + random() % kMaxFile, &random);
    if (kept.size() <= kKept) continue;
    const auto victim = kept.begin() + static_cast<std::ptrdiff_t>(random() % kept.size());
    ASSERT_OK(fs->DeleteFile(*victim, IOOptions(), nullptr));
    kept.erase(victim);
  }
}

void WriteLogs(FileSystem* fs, const std::atomic<bool>* stop) {
  for (int i = 0; !*stop; ++i) {
    const std::string name = "/" + std::to_string(i) + ".log";
    std::unique_ptr<rocksdb::FSWritableFile> log;
    ASSERT_OK(fs->NewWritableFile(name, FileOptions(), &log, nullptr));
    for (std::size_t done = 0; done < 40 && !*stop; ++done) {
      ASSERT_OK(log->Append(Content(7, done, 900), IOOptions(), nullptr));
      ASSERT_OK(log->Sync(IOOptions(), nullptr));
    }
    ASSERT_OK(log->Close(IOOptions(), nullptr));
    ASSERT_OK(fs->DeleteFile(name, IOOptions(), nullptr));
  }
}

void Load(FileSystem* fs) {
  std::atomic<bool> stop = false;
  std::thread logs(WriteLogs, fs, &stop);
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) writers.emplace_back(WriteTables, fs, i);
  for (std::thread& writer : writers) writer.join();
  stop = true;
  logs.join();
  std::vector<std::string> names;
  ASSERT_OK(fs->GetChildren("/", IOOptions(), &names, nullptr));
  for (const std::string& name : names) {
    if (!name.ends_with(".sst")) continue;
    ASSERT_OK(fs->DeleteFile("/" + name, IOOptions(), nullptr));
  }
}

class ReplayTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "zlfs-replay-" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    trace_ = folder_ + "/trace";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Mounts the device, runs `load` on it, and unmounts it.
  void Record(EmulatedDevice* device, const std::string& identity, OptionMap options,
              const std::function<void(FileSystem*)>& load) {
    options["aux"] = folder_ + "/aux";
    options["trace"] = trace_;
    std::unique_ptr<FileSystem> fs;
    // The empty deleter lets the device outlive the mount.
    const std::shared_ptr<EmulatedDevice> shared(device, [](EmulatedDevice*) {});
    ASSERT_OK(
        OpenFileSystem(std::make_unique<HookedDevice>(shared, identity, [] {}), options, &fs));
    load(fs.get());
  }
  void Record(const OptionMap& options, const std::function<void(FileSystem*)>& load = Load,
              int mounts = 1) {
    const auto device = MakeDevice(kShape);
    ASSERT_OK(Mkfs(device.get(), Policy{}, ""));
    for (int i = 0; i < mounts; ++i) {
      Record(device.get(), device->geometry().identity, options, load);
    }
  }

  void Read() {
    mounts_.clear();
    ASSERT_OK(ReadTrace(trace_, &mounts_));
  }

  std::string ErrorOf(const std::function<void(std::string*)>& change) {
    std::ifstream in(trace_, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    change(&bytes);
    const std::string path = folder_ + "/changed";
    std::ofstream(path, std::ios::binary) << bytes;
    std::vector<Mount> mounts;
    const IOStatus status = ReadTrace(path, &mounts);
    const std::string text = status.getState() == nullptr ? "" : status.getState();
    return text.substr(0, text.find(':'));
  }

  std::string folder_;
  std::string trace_;
  std::vector<Mount> mounts_;
};

void ExpectEqual(const Model& model, const std::string& ledger) {
  const nlohmann::json recorded = nlohmann::json::parse(ledger);
  nlohmann::json replayed = LedgerCounts(model.totals(), model.collected_zones(),
                                         SpaceOf(model.allocator()), model.retired());
  for (const std::string_view cause : kCauseNames) {
    if (cause == "metadata") continue;
    EXPECT_EQ(replayed["written"][cause], recorded["written"][cause]);
  }
  EXPECT_EQ(replayed["finishes"], recorded["finishes"]);
  EXPECT_EQ(replayed["resets"]["data"], recorded["resets"]["data"]);
  EXPECT_EQ(replayed["collected_zones"], recorded["collected_zones"]);
  EXPECT_EQ(replayed["space"], recorded["space"]);
  EXPECT_EQ(LedgerZones(model.allocator()), recorded["zones"]);
}

TEST_F(ReplayTest, EqualsTheLedgerOfSeveralThreads) {
  for (const char* const limit : {"share", "finish", "wait"}) {
    std::filesystem::remove(trace_);
    Record({{"finish_remaining_pct", "20"}, {"on_active_limit", limit}, {"gc_start_pct", "20"}},
           Load, 2);
    Read();
    ASSERT_EQ(mounts_.size(), 2U);
    for (const Mount& mount : mounts_) {
      Model model;
      RecordedPlayer player(&model);
      ASSERT_OK(player.Play(mount)) << limit;
      ExpectEqual(model, mount.ledger);
      EXPECT_GT(model.totals().finishes[0].count, 0U);
      EXPECT_GT(model.totals().resets_data, 48U);  // more than one reset per zone
      EXPECT_GT(model.collected_zones(), 0U);
    }
  }
}

TEST_F(ReplayTest, DivergesAtAnotherPolicy) {
  Record({{"finish_remaining_pct", "20"}});
  Read();
  mounts_[0].policy.finish_remaining_pct = 0;
  Model model;
  RecordedPlayer player(&model);
  const IOStatus status = player.Play(mounts_[0]);
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
}

TEST_F(ReplayTest, OtherThresholdsGiveUpMore) {
  Record({});
  Read();
  std::uint64_t before = 0;
  for (const std::uint8_t remaining : std::initializer_list<std::uint8_t>{0, 30, 70}) {
    Setting setting = SettingOf(mounts_[0]);
    setting.policy.finish_remaining_pct = remaining;
    Model model;
    CounterfactualPlayer player(&model);
    const auto infeasible = player.Play(mounts_[0], setting);
    if (infeasible) {
      EXPECT_EQ(remaining, 70);
      EXPECT_GT(infeasible->space.given_up, 0U);
      continue;
    }
    const std::uint64_t given_up = model.totals().finishes[0].given_up;
    EXPECT_EQ(given_up > before, remaining > 0);
    before = given_up;
    // The user's bytes must not change.
    EXPECT_EQ(model.totals().written[static_cast<std::size_t>(Cause::kWal)].payload,
              nlohmann::json::parse(mounts_[0].ledger)["written"]["wal"]["payload"]);
  }
  EXPECT_GT(before, 0U);
}

TEST_F(ReplayTest, SmallerDevicesCannotHoldTheData) {
  Record({});
  Read();
  Setting setting = SettingOf(mounts_[0]);
  setting.zones = 24;
  Model model;
  CounterfactualPlayer player(&model);
  const auto infeasible = player.Play(mounts_[0], setting);
  ASSERT_TRUE(infeasible);
  const SpaceUse& space = infeasible->space;
  EXPECT_EQ(space.capacity, (24U - kMetadataZones) * (192 << 10));
  EXPECT_EQ(space.capacity, space.live + space.pad + space.garbage + space.given_up + space.free);
}

TEST_F(ReplayTest, IsDeterministic) {
  Record({});
  Read();
  std::vector<std::string> ledgers;
  for (int i = 0; i < 2; ++i) {
    Setting setting = SettingOf(mounts_[0]);
    setting.zone_capacity /= 2;
    setting.zones *= 2;
    Model model;
    CounterfactualPlayer player(&model);
    ASSERT_FALSE(player.Play(mounts_[0], setting));
    ledgers.push_back(LedgerCounts(model.totals(), model.collected_zones(),
                                   SpaceOf(model.allocator()), model.retired())
                          .dump());
  }
  EXPECT_EQ(ledgers[0], ledgers[1]);
}

TEST_F(ReplayTest, DamageIsRefused) {
  Record({});
  EXPECT_EQ(ErrorOf([](std::string*) {}), "");
  EXPECT_EQ(ErrorOf([](std::string* bytes) { bytes->clear(); }), "bad-trace");
  EXPECT_EQ(ErrorOf([](std::string* bytes) { bytes->resize(bytes->size() - 1); }), "unfinished");
  EXPECT_EQ(ErrorOf([](std::string* bytes) { (*bytes)[bytes->size() / 2] ^= 1; }), "bad-trace");
  EXPECT_EQ(ErrorOf([](std::string* bytes) { (*bytes)[3] ^= 1; }), "bad-trace");
  EXPECT_EQ(ErrorOf([](std::string* bytes) { bytes->append("x"); }), "unfinished");
}

}  // namespace
}  // namespace zlfs::replay
