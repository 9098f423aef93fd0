// The order of commands: what must be durable before what. Devices that block or observe commands
// make each order visible, so that no verdict depends on time.

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "zlfs/meta/recover.h"
#include "zlfs/tests/emulated_faults.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs {
namespace {

constexpr const char* kVolatile =
    "zones=40&zone_size=128K&zone_capacity=96K&max_active=8&cache=volatile";

// Blocks flushes until the test releases them.
class BlockingDevice final : public ForwardingDevice {
 public:
  explicit BlockingDevice(ZonedDevice* inner) : ForwardingDevice(inner) {}

  void BlockNextFlush() {
    const std::lock_guard lock(mutex_);
    blocks_ = true;
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    blocks_ = false;
    changed_.notify_all();
  }
  void AwaitBlockedFlush() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return blocked_; });
  }
  // Returns when this many writes were carried out since the device was made.
  void AwaitWrites(std::uint64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, count] { return writes_ >= count; });
  }
  std::uint64_t writes() {
    const std::lock_guard lock(mutex_);
    return writes_;
  }
  std::uint64_t flushes() {
    const std::lock_guard lock(mutex_);
    return flushes_;
  }

 private:
  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                   std::uint64_t* written) override {
    const IOStatus status = inner_->Write(zone, offset, buffer, written);
    const std::lock_guard lock(mutex_);
    ++writes_;
    changed_.notify_all();
    return status;
  }
  IOStatus DoFlush() override {
    std::unique_lock lock(mutex_);
    ++flushes_;
    blocked_ = blocks_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !blocks_; });
    blocked_ = false;
    lock.unlock();
    return inner_->Flush();
  }

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool blocks_ = false;
  bool blocked_ = false;
  std::uint64_t writes_ = 0;
  std::uint64_t flushes_ = 0;
};

// A flush may miss a write that the device accepted while the flush ran.
TEST(Order, AFlushServesNoCallThatBeganAfterIt) {
  const auto inner = MakeDevice(kVolatile);
  BlockingDevice device(inner.get());
  ZoneIo io(&device);
  device.BlockNextFlush();
  std::thread first([&io] { EXPECT_OK(io.Flush()); });
  device.AwaitBlockedFlush();
  std::thread second([&io] { EXPECT_OK(io.Flush()); });
  while (io.totals().flush_calls < 2) std::this_thread::yield();
  device.Release();
  first.join();
  second.join();
  EXPECT_EQ(device.flushes(), 2U);
}

// Loses all cached writes except those of the metadata.
std::shared_ptr<EmulatedDevice> LoseData(const EmulatedDevice& device) {
  std::unique_ptr<EmulatedDevice> clone;
  EXPECT_OK(EmulatedFaults::Clone(device, "data-lost", &clone));
  std::vector<std::uint64_t> kept;
  for (const CachedWrite& write : EmulatedFaults::Cached(device)) {
    kept.push_back(write.zone < kMetadataZones ? write.blocks : 0);
  }
  EmulatedFaults::PowerLoss(*clone, kept);
  return clone;
}

// A frame carries the number of the last flushed frame. If that number is too high, recovery takes
// a loss of power for a loss of flushed data.
TEST(Order, AFrameIsMarkedAsFlushedOnlyBehindItsFlush) {
  const std::shared_ptr<EmulatedDevice> inner = MakeDevice(kVolatile);
  ASSERT_OK(Mkfs(inner.get(), {}, ""));
  auto owned = std::make_unique<BlockingDevice>(inner.get());
  BlockingDevice* const device = owned.get();
  const auto volume = MountOk(std::move(owned));
  const auto put = [&volume](const std::string& name) {
    std::shared_ptr<File> file;
    ASSERT_OK(volume->files().Create(name, FileKind::kData, &file));
    volume->writer().SetPlacement(file.get(), DataPlacement());
    ASSERT_OK(volume->writer().Append(file.get(), Content(1, 0, 5000)));
    ASSERT_OK(volume->writer().Sync(file.get()));
    ASSERT_OK(volume->writer().FinishWriting(file.get()));
  };
  const std::uint64_t writes = device->writes();
  device->BlockNextFlush();
  std::thread first(put, "/a");
  device->AwaitBlockedFlush();
  std::thread second(put, "/b");
  device->AwaitWrites(writes + 4);  // two files and two frames
  const auto lost = LoseData(*inner);
  HookedDevice after(lost, inner->geometry().identity, [] {});
  EXPECT_EQ(Violations(&after), "");
  device->Release();
  first.join();
  second.join();
}

// Calls a function before each reset.
class WatchedResets final : public ForwardingDevice {
 public:
  WatchedResets(ZonedDevice* inner, std::function<void(std::uint32_t)> before)
      : ForwardingDevice(inner), before_(std::move(before)) {}

 private:
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    if (to == ZoneCondition::kEmpty) before_(zone);
    return inner_->ChangeZone(zone, to);
  }
  const std::function<void(std::uint32_t)> before_;
};

// Recovery reads pieces from the zones that the log names. Data in such a zone looks like
// corruption, so the log must have ended durably before the zone is reset.
TEST(Order, ALogZoneIsResetOnlyBehindItsDurableEnd) {
  const std::shared_ptr<EmulatedDevice> inner = MakeDevice(kVolatile);
  ASSERT_OK(Mkfs(inner.get(), {}, ""));
  ASSERT_OK(inner->Flush());
  int resets = 0;
  const auto volume = MountOk(std::make_unique<WatchedResets>(inner.get(), [&](std::uint32_t zone) {
    if (zone < kMetadataZones) return;
    ++resets;
    std::unique_ptr<EmulatedDevice> clone;
    ASSERT_OK(EmulatedFaults::Clone(*inner, "before-reset", &clone));
    EmulatedFaults::PowerLoss(*clone, {});
    HookedDevice after(std::move(clone), inner->geometry().identity, [] {});
    Recovered recovered;
    ASSERT_OK(Recover(&after, &recovered));
    EXPECT_FALSE(recovered.space.log_zones.contains(zone)) << zone;
  }));
  for (int i = 0; i < 20; ++i) {
    const std::string name = "/" + std::to_string(i) + ".log";
    std::shared_ptr<File> log;
    ASSERT_OK(volume->files().Create(name, FileKind::kLog, &log));
    volume->writer().SetPlacement(log.get(), LogPlacement());
    for (std::uint64_t piece = 0; piece < 12; ++piece) {
      ASSERT_OK(volume->writer().Append(log.get(), Content(1, piece * 9000, 9000)));
      ASSERT_OK(volume->writer().Sync(log.get()));
    }
    ASSERT_OK(volume->writer().FinishWriting(log.get()));
    log.reset();
    ASSERT_OK(volume->files().Delete(name));
    ASSERT_OK(volume->files().SyncNames());
  }
  EXPECT_GT(resets, 10);
}

// The records of a write can survive without its data. Recovery cuts the file at the block where
// the data ends.
TEST(Order, AFileEndsWhereItsDataEnds) {
  const std::shared_ptr<EmulatedDevice> inner = MakeDevice(kVolatile);
  ASSERT_OK(Mkfs(inner.get(), {}, ""));
  int losses = 0;
  // Loses a part of the data, and keeps the records of the whole.
  const auto lose = [&](std::uint64_t landed) {
    std::unique_ptr<EmulatedDevice> clone;
    ASSERT_OK(EmulatedFaults::Clone(*inner, "cut", &clone));
    std::vector<std::uint64_t> kept;
    for (const CachedWrite& write : EmulatedFaults::Cached(*inner)) {
      kept.push_back(write.zone < kMetadataZones ? write.blocks : landed);
    }
    EmulatedFaults::PowerLoss(*clone, kept);
    const auto after = MountOk(
        std::make_unique<HookedDevice>(std::move(clone), inner->geometry().identity, [] {}));
    ASSERT_NE(after, nullptr);
    const std::uint64_t size = 5000 + std::min<std::uint64_t>(8692, landed * 4096);
    EXPECT_EQ(ReadWhole(after.get(), "/MANIFEST"), Content(1, 0, size)) << landed;
    ++losses;
  };
  bool watches = false;
  const auto volume = MountOk(std::make_unique<HookedDevice>(inner, [&] {
    if (!watches || EmulatedFaults::Cached(*inner).size() != 3) return;  // data, two frames
    for (std::uint64_t landed = 0; landed <= 3; ++landed) lose(landed);
  }));
  std::shared_ptr<File> file;
  ASSERT_OK(volume->files().Create("/MANIFEST", FileKind::kData, &file));
  ASSERT_OK(volume->writer().Append(file.get(), Content(1, 0, 5000)));
  ASSERT_OK(volume->writer().Sync(file.get()));
  watches = true;
  ASSERT_OK(volume->writer().Append(file.get(), Content(1, 5000, 8692)));  // three blocks
  ASSERT_OK(volume->writer().Sync(file.get()));
  EXPECT_EQ(losses, 4);
  ASSERT_OK(volume->writer().FinishWriting(file.get()));
}

}  // namespace
}  // namespace zlfs
