// Resets, finishes and reads that take long, on a device that holds them back until the test
// releases them.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "zlfs/tests/faulty_device.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs {
namespace {

constexpr auto kTooLong = std::chrono::seconds(20);

class HeldDevice final : public ForwardingDevice {
 public:
  explicit HeldDevice(ZonedDevice* inner) : ForwardingDevice(inner) { geometry_.waits = true; }
  // From now on resets (kEmpty) or finishes (kFull) wait until Release.
  void Hold(ZoneCondition to) {
    const std::lock_guard lock(mutex_);
    held_ = to;
  }
  // From now on reads wait until Release.
  void HoldReads() {
    const std::lock_guard lock(mutex_);
    holds_reads_ = true;
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    held_.reset();
    holds_reads_ = false;
    changed_.notify_all();
  }
  // Returns when a command waits, or false after a long time.
  bool AwaitHeld() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTooLong, [this] { return waiting_ > 0; });
  }
  // Whether a command waited until the test was over.
  bool gave_up() {
    const std::lock_guard lock(mutex_);
    return gave_up_;
  }

 private:
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    Wait([this, to] { return held_ == to; });
    return inner_->ChangeZone(zone, to);
  }
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override {
    Wait([this] { return holds_reads_; });
    return inner_->Read(zone, offset, size, buffer);
  }
  // Waits while `holds` returns true.
  void Wait(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex_);
    if (!holds()) return;
    ++waiting_;
    changed_.notify_all();
    gave_up_ |= !changed_.wait_for(lock, kTooLong, [&holds] { return !holds(); });
    --waiting_;
  }

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::optional<ZoneCondition> held_;
  bool holds_reads_ = false;
  bool gave_up_ = false;
  std::size_t waiting_ = 0;
};

// With this patience, a writer never waits for space.
class NoPatience final : public Patience {
 public:
  bool Wait(std::unique_lock<std::mutex>* /*lock*/, std::condition_variable* /*changed*/,
            const std::function<bool()>& done) override {
    return done();
  }
};

constexpr std::uint64_t kZone = 96 << 10;
constexpr std::uint64_t kPart = 60 << 10;

class BackgroundTest : public testing::Test {
 protected:
  explicit BackgroundTest(const Policy& policy) {
    EXPECT_OK(Mkfs(device_.get(), policy, ""));
    formatted_ = device_->counters();
    auto held = std::make_unique<HeldDevice>(&faulty_);
    held_ = held.get();
    volume_ = MountOk(std::move(held), {.patience = std::make_shared<NoPatience>()});
  }

  IOStatus Put(const std::string& name, std::uint64_t size, std::uint8_t lifetime = 3) {
    std::shared_ptr<File> file;
    RETURN_IF_ERROR(volume_->files().Create(name, FileKind::kData, &file));
    volume_->writer().SetPlacement(file.get(), DataPlacement(lifetime));
    IOStatus status = volume_->writer().Append(file.get(), Content(1, 0, size));
    if (status.ok()) status = volume_->writer().Sync(file.get());
    const IOStatus finished = volume_->writer().FinishWriting(file.get());
    return status.ok() ? finished : status;
  }

  const std::unique_ptr<EmulatedDevice> device_ =
      MakeDevice("zones=40&zone_size=128K&zone_capacity=96K&max_active=8");
  FaultyDevice faulty_ = FaultyDevice(device_.get());
  Counters formatted_;
  HeldDevice* held_ = nullptr;
  std::unique_ptr<Volume> volume_;
};

class BackgroundReset : public BackgroundTest {
 protected:
  BackgroundReset() : BackgroundTest(Policy()) {}
  IOStatus Put(const std::string& name) { return BackgroundTest::Put(name, kZone); }
};

TEST_F(BackgroundReset, NoSyncWaitsForAReset) {
  for (const char* name : {"/1", "/2", "/3"}) ASSERT_OK(Put(name));
  held_->Hold(ZoneCondition::kEmpty);
  for (const char* name : {"/1", "/2"}) {
    ASSERT_OK(volume_->files().Delete(name));
    ASSERT_OK(volume_->files().SyncNames());
  }
  EXPECT_TRUE(held_->AwaitHeld());
  ASSERT_OK(Put("/4"));
  held_->Release();
  EXPECT_FALSE(held_->gave_up());
  // The end of the volume waits for all resets.
  ASSERT_OK(volume_->Close());
  EXPECT_GE(volume_->totals().resets_data, 2U);
  ExpectLedgerIsDevice(volume_->totals(), formatted_, device_->counters());
}

TEST_F(BackgroundReset, AWriterWithoutSpaceWaitsForResets) {
  int count = 0;
  while (Put("/" + std::to_string(++count)).ok()) {
  }
  ASSERT_GT(count, 20);
  held_->Hold(ZoneCondition::kEmpty);
  for (int i = 1; i < count; ++i) ASSERT_OK(volume_->files().Delete("/" + std::to_string(i)));
  ASSERT_OK(volume_->files().SyncNames());
  ASSERT_TRUE(held_->AwaitHeld());
  std::thread releases([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held_->Release();
  });
  for (int i = 1; i < count - 1; ++i) EXPECT_OK(Put("/again" + std::to_string(i))) << i;
  releases.join();
  EXPECT_FALSE(held_->gave_up());
}

// Other readers and the writer need the mutex that a read beyond the stored bytes takes.
TEST_F(BackgroundReset, AReadOfTheEndDelaysNoOtherCall) {
  std::shared_ptr<File> file;
  ASSERT_OK(volume_->files().Create("/1", FileKind::kData, &file));
  ASSERT_OK(volume_->writer().Append(file.get(), Content(1, 0, 5000)));
  ASSERT_OK(volume_->writer().Sync(file.get()));
  ASSERT_OK(volume_->writer().Append(file.get(), Content(1, 5000, 100)));
  held_->HoldReads();
  std::string content(6000, '\0');
  Slice read;
  std::thread reads([&] {
    EXPECT_OK(volume_->reader().Read(file.get(), 0, content.size(), &read, content.data()));
  });
  ASSERT_TRUE(held_->AwaitHeld());
  EXPECT_EQ(volume_->reader().Size(file.get()), 5100U);
  ASSERT_OK(volume_->writer().Append(file.get(), Content(1, 5100, 100)));
  ASSERT_OK(volume_->writer().Sync(file.get()));
  held_->Release();
  reads.join();
  EXPECT_FALSE(held_->gave_up());
  EXPECT_EQ(read.ToString(), Content(1, 0, 5100));
  ASSERT_OK(volume_->writer().FinishWriting(file.get()));
}

// A second reset would erase what the zone got after the first one.
TEST_F(BackgroundReset, AZoneWhoseWriteFailedIsResetOnce) {
  std::shared_ptr<File> manifest;
  ASSERT_OK(volume_->files().Create("/MANIFEST", FileKind::kData, &manifest));
  ASSERT_OK(volume_->writer().Append(manifest.get(), Content(2, 0, 5000)));
  faulty_.Inject({.operation = Operation::kWrite, .landed_blocks = 1});
  held_->Hold(ZoneCondition::kFull);  // zlfs finishes a zone whose write failed
  std::thread fails([&] { EXPECT_OK(volume_->writer().Sync(manifest.get())); });
  ASSERT_TRUE(held_->AwaitHeld());
  ASSERT_OK(Put("/1"));  // its sync resets zones without content
  const std::vector<ZoneSpace> zones = volume_->Zones();
  EXPECT_EQ(std::ranges::count(zones, ZoneUse::kResetting, &ZoneSpace::use), 0);
  held_->Release();
  fails.join();
  for (const char* name : {"/2", "/3"}) ASSERT_OK(Put(name));
  EXPECT_FALSE(held_->gave_up());
  ASSERT_OK(volume_->writer().FinishWriting(manifest.get()));
  manifest.reset();
  ASSERT_OK(volume_->Close());
  EXPECT_EQ(volume_->totals().resets_data, 1U);
  EXPECT_EQ(std::ranges::count(volume_->Zones(), ZoneUse::kEmpty, &ZoneSpace::use),
            static_cast<std::ptrdiff_t>(volume_->Space().empty_zones));
}

// Each file fills more than half of a zone, so that its close finishes the zone.
class BackgroundFinish : public BackgroundTest {
 protected:
  BackgroundFinish() : BackgroundTest({.finish_remaining_pct = 50, .gc = 0}) {}
  // With another lifetime each time, so that no zone gets two of them.
  IOStatus Put(const std::string& name) {
    lifetime_ = static_cast<std::uint8_t>((lifetime_ + 1) % 4);
    return BackgroundTest::Put(name, kPart, lifetime_);
  }

  std::uint32_t ActiveOnDevice() {
    std::vector<ZoneInfo> zones;
    const std::uint32_t count = device_->geometry().zone_count;
    EXPECT_OK(device_->Report(kMetadataZones, count - kMetadataZones, &zones));
    const auto active = std::ranges::count_if(zones, IsActive, &ZoneInfo::condition);
    return static_cast<std::uint32_t>(active);
  }

  std::uint8_t lifetime_ = 0;
};

TEST_F(BackgroundFinish, NoSyncAndNoCloseWaitsForAFinish) {
  held_->Hold(ZoneCondition::kFull);
  ASSERT_OK(Put("/1"));
  ASSERT_TRUE(held_->AwaitHeld());
  ASSERT_OK(Put("/2"));
  std::shared_ptr<File> manifest;
  ASSERT_OK(volume_->files().Create("/MANIFEST", FileKind::kData, &manifest));
  ASSERT_OK(volume_->writer().Append(manifest.get(), Content(2, 0, 5000)));
  ASSERT_OK(volume_->writer().Sync(manifest.get()));
  ASSERT_OK(volume_->writer().FinishWriting(manifest.get()));
  ASSERT_OK(volume_->files().SyncNames());
  EXPECT_EQ(ReadWhole(volume_.get(), "/1"), Content(1, 0, kPart));
  EXPECT_EQ(volume_->totals().finishes[0].count, 0U);
  held_->Release();
  EXPECT_FALSE(held_->gave_up());
  manifest.reset();
  // The end of the volume waits for all finishes, and the ledger has what they gave up.
  ASSERT_OK(volume_->Close());
  EXPECT_EQ(volume_->totals().finishes[0].count, 2U);
  EXPECT_EQ(volume_->totals().finishes[0].given_up, 2 * (kZone - kPart));
  EXPECT_EQ(volume_->Space().given_up, 2 * (kZone - kPart));
  ExpectLedgerIsDevice(volume_->totals(), formatted_, device_->counters());
}

TEST_F(BackgroundFinish, AZoneIsActiveUntilItsFinishEnds) {
  held_->Hold(ZoneCondition::kFull);
  // Of 8 active zones, the metadata log has 2, and 3 are reserved for shared causes.
  for (const char* name : {"/1", "/2", "/3"}) {
    ASSERT_OK(Put(name));
    EXPECT_EQ(volume_->Space().active_zones, ActiveOnDevice());
  }
  EXPECT_EQ(ActiveOnDevice(), 3U);
  // The next writer waits for a finish: it neither exceeds the limit nor shares a zone.
  std::thread writes([this] { EXPECT_OK(Put("/4")); });
  ASSERT_TRUE(held_->AwaitHeld());
  held_->Release();
  writes.join();
  EXPECT_FALSE(held_->gave_up());
  ASSERT_OK(volume_->Close());
  EXPECT_EQ(volume_->totals().finishes[0].count, 4U);
  EXPECT_EQ(volume_->Space().active_zones, ActiveOnDevice());
  EXPECT_EQ(std::ranges::count(volume_->Zones(), true, &ZoneSpace::broken), 0);
}

TEST_F(BackgroundFinish, AWriterAtTheLimitWaitsInsteadOfSharing) {
  constexpr std::uint64_t kSmall = 8 << 10;
  ASSERT_OK(BackgroundTest::Put("/small", kSmall, 1));  // leaves its zone without a finish
  held_->Hold(ZoneCondition::kFull);
  for (const char* name : {"/1", "/2"}) ASSERT_OK(BackgroundTest::Put(name, kPart, 2));
  EXPECT_EQ(volume_->Space().active_zones, 3U);
  std::thread releases([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held_->Release();
  });
  EXPECT_OK(BackgroundTest::Put("/3", kPart, 3));
  releases.join();
  const std::vector<ZoneSpace> zones = volume_->Zones();
  const auto holds_small = [](const ZoneSpace& zone) { return zone.kept.live == kSmall; };
  EXPECT_EQ(std::ranges::count_if(zones, holds_small), 1);
}

TEST_F(BackgroundFinish, AWriterWithoutSpaceWaitsForFinishes) {
  int count = 0;
  while (Put("/" + std::to_string(count)).ok()) ++count;
  ASSERT_GT(count, 20);
  const auto remove = [this](const char* name) {
    ASSERT_OK(volume_->files().Delete(name));
    ASSERT_OK(volume_->files().SyncNames());
  };
  // The only zone that can become empty waits for its finish.
  remove("/1");
  held_->Hold(ZoneCondition::kFull);
  ASSERT_OK(Put("/again"));
  ASSERT_TRUE(held_->AwaitHeld());
  remove("/again");
  std::thread releases([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held_->Release();
  });
  EXPECT_OK(Put("/last"));
  releases.join();
  EXPECT_FALSE(held_->gave_up());
}

TEST_F(BackgroundFinish, AFailedOneFailsNoFileAndKeepsItsSlot) {
  faulty_.Inject({.operation = Operation::kFinish, .times = 2});
  ASSERT_OK(Put("/1"));
  ASSERT_OK(Put("/2"));
  ASSERT_OK(volume_->Close());
  EXPECT_EQ(volume_->totals().finishes[0].count, 1U);
  EXPECT_EQ(ActiveOnDevice(), 1U);
  EXPECT_EQ(volume_->Space().active_zones, 1U);
  const std::vector<ZoneSpace> zones = volume_->Zones();
  const auto broken = std::ranges::find(zones, true, &ZoneSpace::broken);
  ASSERT_NE(broken, zones.end());  // it takes no more writes
  EXPECT_EQ(broken->use, ZoneUse::kActive);
  volume_.reset();
  volume_ = MountOk(std::make_unique<HeldDevice>(&faulty_));
  for (const char* name : {"/1", "/2"})
    EXPECT_EQ(ReadWhole(volume_.get(), name), Content(1, 0, kPart));
}

}  // namespace
}  // namespace zlfs
