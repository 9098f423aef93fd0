// Power loss and sudden death of the process after every device command. No synced data is lost,
// and every invariant holds before and after recovery.
//
// A seeded load runs on a small device with a volatile cache. After a command the test clones the
// device. The clone loses its whole cache, nothing (a killed process), everything but a torn write,
// or a random part of each zone's writes. ZLFS_CRASH_STRIDE=1 tests every command; the default is
// every 16th. ZLFS_CRASH_STEPS sets the length of the load.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "zlfs/tests/emulated_faults.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs {
namespace {

std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// The expected state of one file.
struct Expected {
  std::uint64_t seed = 0;
  std::uint64_t appended = 0;
  std::uint64_t synced = 0;
  bool must_exist = false;  // durably created, and not deleted or replaced since
};

struct Setting {
  const char* shape;
  std::uint8_t finish_remaining_pct;
  OnActiveLimit on_active_limit;
};

class CrashTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    inner_ = MakeDevice(std::string(GetParam().shape) + "&cache=volatile");
    Policy policy;
    policy.finish_remaining_pct = GetParam().finish_remaining_pct;
    policy.on_active_limit = GetParam().on_active_limit;
    ASSERT_OK(Mkfs(inner_.get(), policy, ""));
    ASSERT_OK(inner_->Flush());
    volume_ = MountOk(std::make_unique<HookedDevice>(inner_, [this] { AfterCommand(); }));
    ASSERT_NE(volume_, nullptr);
  }

  void TearDown() override {
    open_.clear();
    volume_.reset();
    inner_.reset();
  }

  void AfterCommand() {
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    if (++commands_ % stride_ != 0) return;
    const std::size_t cached = EmulatedFaults::Cached(*inner_).size();
    Try("all lost", [](EmulatedDevice* device) { EmulatedFaults::PowerLoss(*device, 0, 0); });
    Try("killed", [](EmulatedDevice*) {});
    if (cached == 0) return;
    Try("torn", [this, cached](EmulatedDevice* device) {
      const std::size_t whole = random_() % cached;
      EmulatedFaults::PowerLoss(*device, whole,
                                random_() % (EmulatedFaults::Cached(*device)[whole].blocks + 1));
    });
    Try("out of order", [this](EmulatedDevice* device) {
      std::vector<std::uint64_t> kept;
      for (const CachedWrite& write : EmulatedFaults::Cached(*device)) {
        kept.push_back(random_() % 2 == 0 ? write.blocks : random_() % (write.blocks + 1));
      }
      EmulatedFaults::PowerLoss(*device, kept);
    });
  }

  template <typename Fail>
  void Try(const char* how, Fail fail) {
    SCOPED_TRACE(std::string(how) + " after command " + std::to_string(commands_) + ", step " +
                 std::to_string(step_));
    std::unique_ptr<EmulatedDevice> clone;
    ASSERT_OK(EmulatedFaults::Clone(*inner_, std::string("crashed-") + GetParam().shape, &clone));
    fail(clone.get());
    const std::shared_ptr<EmulatedDevice> crashed = std::move(clone);
    // Recovery crashes too, at one of its commands.
    std::uint64_t left = random_() % 8;
    Recover(crashed, [this, &crashed, &left] {
      if (left-- != 0) return;
      std::unique_ptr<EmulatedDevice> again;
      ASSERT_OK(EmulatedFaults::Clone(*crashed, std::string("again-") + GetParam().shape, &again));
      std::vector<std::uint64_t> kept;
      for (const CachedWrite& write : EmulatedFaults::Cached(*again))
        kept.push_back(random_() % (write.blocks + 1));
      EmulatedFaults::PowerLoss(*again, kept);
      SCOPED_TRACE("again");
      Recover(std::move(again), [] {});
    });
  }

  void Recover(std::shared_ptr<EmulatedDevice> crashed, HookedDevice::Hook hook) {
    ++crashes_;
    auto device = std::make_unique<HookedDevice>(std::move(crashed), inner_->geometry().identity,
                                                 std::move(hook));
    HookedDevice* const raw = device.get();
    ASSERT_EQ(Violations(raw), "");
    auto volume = MountOk(std::move(device));
    ASSERT_NE(volume, nullptr);
    Verify(volume.get());
    ASSERT_EQ(Violations(raw), "");
    ASSERT_OK(volume->Close());
    ASSERT_EQ(Violations(raw), "");
  }

  // Synced content must be present; the file can end anywhere after it. A zone that lost content
  // becomes full if the active limit is reached, and the lost content then reads as zeros.
  static bool Matches(const std::string& content, const Expected& one) {
    const std::string wanted = Content(one.seed, 0, content.size());
    if (content == wanted) return true;
    for (std::size_t i = 0; i < content.size(); ++i) {
      if (content[i] != wanted[i] && (i < one.synced || content[i] != '\0')) return false;
    }
    return true;
  }

  void Verify(Volume* volume) {
    for (const auto& [name, possible] : expected_) {
      if (!volume->files().Exists(name)) {
        for (const Expected& one : possible) ASSERT_FALSE(one.must_exist) << name << " is lost";
        continue;
      }
      const std::string content = ReadWhole(volume, name);
      bool matches = false;
      for (const Expected& one : possible) {
        if (content.size() > one.appended || content.size() < one.synced) continue;
        matches |= Matches(content, one);
      }
      ASSERT_TRUE(matches) << name << " has " << content.size() << " bytes that were never written"
                           << ", synced were " << possible.back().synced;
    }
    for (const FileInfo& file : volume->files().All()) {
      ASSERT_TRUE(expected_.contains(file.name)) << file.name;
    }
  }

  std::uint64_t Random(std::uint64_t n) { return load_() % n; }

  void Create(const std::string& name, FileKind kind, const Placement& placement) {
    std::vector<Expected>& possible = expected_[name];
    // The old file can reappear until the new name is durable.
    for (Expected& old : possible) old.must_exist = false;
    possible.push_back({.seed = ++seed_});
    std::shared_ptr<File> file;
    ASSERT_OK(volume_->files().Create(name, kind, &file));
    volume_->writer().SetPlacement(file.get(), placement);
    open_[name] = file;
  }

  void Append(const std::string& name, std::uint64_t size) {
    Expected& one = expected_[name].back();
    const std::string content = Content(one.seed, one.appended, size);
    one.appended += size;
    ASSERT_OK(volume_->writer().Append(open_[name].get(), content));
  }

  void Sync(const std::string& name) {
    ASSERT_OK(volume_->writer().Sync(open_[name].get()));
    Expected& one = expected_[name].back();
    one.synced = one.appended;
    one.must_exist = true;
    expected_[name] = {one};  // earlier files of this name can no longer reappear
  }

  void Finish(const std::string& name) {
    ASSERT_OK(volume_->writer().FinishWriting(open_[name].get()));
    open_.erase(name);
  }

  void Delete(const std::string& name) {
    for (Expected& one : expected_[name]) one.must_exist = false;
    ASSERT_OK(volume_->files().Delete(name));
  }

  // Replaces a file in the way RocksDB replaces CURRENT.
  void Replace(const std::string& from, const std::string& to) {
    Create(from, FileKind::kData, {});
    Append(from, 1 + Random(300));
    Sync(from);
    Finish(from);
    Expected moved = expected_[from].back();
    expected_[from].back().must_exist = false;
    std::vector<Expected>& target = expected_[to];
    for (Expected& one : target) one.must_exist = false;
    target.push_back(moved);
    target.back().must_exist = false;
    ASSERT_OK(volume_->files().Rename(from, to));
    ASSERT_OK(volume_->files().SyncNames());
    moved.must_exist = true;
    expected_[to] = {moved};
    expected_.erase(from);
  }

  std::uint64_t LiveBytes() const {
    std::uint64_t sum = 0;
    for (const std::string& name : tables_) sum += expected_.at(name).back().appended;
    return sum;
  }

  // Runs one random operation of a database.
  void Step() {
    ++step_;
    const std::uint64_t choice = Random(100);
    const bool log_is_long = !log_.empty() && expected_[log_].back().appended > 60000;
    if (choice < 55 && !log_is_long) {
      if (log_.empty()) {
        log_ = "/db/" + std::to_string(++names_) + ".log";
        Create(log_, FileKind::kLog, LogPlacement());
      }
      Append(log_, 1 + Random(9000));
      if (Random(3) != 0) Sync(log_);
    } else if (choice < 60 && !log_.empty()) {
      Finish(log_);
      logs_.push_back(log_);
      log_.clear();
      while (logs_.size() > 2) {
        Delete(logs_.front());
        logs_.erase(logs_.begin());
      }
    } else if (choice < 85) {
      const auto lifetime = static_cast<std::uint8_t>(2 + Random(4));
      const std::string name = "/db/" + std::to_string(++names_) + ".sst";
      Create(name, FileKind::kData,
             DataPlacement(lifetime, Random(2) == 0 ? Cause::kFlush : Cause::kCompaction));
      const std::uint64_t pieces = 1 + Random(4);
      for (std::uint64_t i = 0; i < pieces; ++i) {
        Append(name, 1 + Random(30000));
        if (Random(4) == 0) Sync(name);
      }
      Sync(name);
      Finish(name);
      tables_.push_back(name);
      while (LiveBytes() > live_limit_) {
        const std::size_t victim = Random(tables_.size());
        Delete(tables_[victim]);
        tables_.erase(tables_.begin() + static_cast<std::ptrdiff_t>(victim));
      }
    } else if (choice < 95) {
      if (manifest_.empty()) {
        manifest_ = "/db/MANIFEST";
        Create(manifest_, FileKind::kData, {});
      }
      Append(manifest_, 1 + Random(200));
      Sync(manifest_);
    } else {
      Replace("/db/000001.dbtmp", "/db/CURRENT");
    }
  }

  std::shared_ptr<EmulatedDevice> inner_;
  std::unique_ptr<Volume> volume_;
  std::map<std::string, std::vector<Expected>> expected_;
  std::map<std::string, std::shared_ptr<File>> open_;
  std::vector<std::string> tables_;
  std::vector<std::string> logs_;
  std::string log_;
  std::string manifest_;
  std::uint64_t live_limit_ = 0;
  std::uint64_t names_ = 0;
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t commands_ = 0;
  std::uint64_t crashes_ = 0;
  const std::uint64_t stride_ = FromEnvironment("ZLFS_CRASH_STRIDE", 16);
  std::mt19937_64 load_{FromEnvironment("ZLFS_CRASH_SEED", 7)};  // NOLINT(cert-msc51-cpp)
  std::mt19937_64 random_{11};
};

TEST_P(CrashTest, NothingSyncedIsLost) {
  live_limit_ = volume_->Space().capacity / 3;  // WALs, padding and reserves need the rest
  const std::uint64_t steps = FromEnvironment("ZLFS_CRASH_STEPS", 700);
  while (step_ < steps && !HasFailure()) Step();
  const Totals totals = volume_->totals();
  RecordProperty("commands", std::to_string(commands_));
  RecordProperty("crashes", std::to_string(crashes_));
  std::printf("%lu commands, %lu crashes, %lu bytes collected, %lu data and %lu metadata resets\n",
              commands_, crashes_, totals.written[static_cast<std::size_t>(Cause::kGc)].payload,
              totals.resets_data, totals.resets_metadata);
  // The load must have covered the difficult cases.
  EXPECT_GT(totals.resets_data, 0U);
  EXPECT_GT(totals.resets_metadata, 2U);
  const auto& finishes = totals.finishes[static_cast<std::size_t>(FinishCause::kThreshold)];
  EXPECT_EQ(finishes.count > 5, GetParam().finish_remaining_pct > 0) << finishes.count;
}

INSTANTIATE_TEST_SUITE_P(
    Devices, CrashTest,
    testing::Values(Setting{"zones=24&zone_size=128K&zone_capacity=96K&max_active=6", 0,
                            OnActiveLimit::kShare},
                    Setting{"zones=40&zone_size=64K&max_active=14", 50, OnActiveLimit::kFinish},
                    Setting{"zones=24&zone_size=128K&zone_capacity=100K&block_size=512", 0,
                            OnActiveLimit::kShare},
                    Setting{"zones=24&zone_size=128K&zone_capacity=96K&max_active=8", 50,
                            OnActiveLimit::kShare}));

}  // namespace
}  // namespace zlfs
