// Resets in the background, on a device whose resets wait until the test lets them go.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "zlfs/tests/volume_test_util.h"

namespace zlfs {
namespace {

constexpr auto kTooLong = std::chrono::seconds(20);

class HeldDevice final : public ForwardingDevice {
 public:
  explicit HeldDevice(ZonedDevice* inner) : ForwardingDevice(inner) { geometry_.waits = true; }
  // From now on resets wait until Release.
  void Hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  // Returns when a reset waits, or false after a long time.
  bool AwaitReset() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTooLong, [this] { return waiting_ > 0; });
  }
  // Whether a reset waited until the test was over.
  bool gave_up() {
    const std::lock_guard lock(mutex_);
    return gave_up_;
  }

 private:
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    if (to == ZoneCondition::kEmpty) {
      std::unique_lock lock(mutex_);
      ++waiting_;
      changed_.notify_all();
      gave_up_ |= !changed_.wait_for(lock, kTooLong, [this] { return !held_; });
      --waiting_;
    }
    return inner_->ChangeZone(zone, to);
  }

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool held_ = false;
  bool gave_up_ = false;
  std::size_t waiting_ = 0;
};

// A writer with it never waits for space to return.
class NoPatience final : public Patience {
 public:
  bool Wait(std::unique_lock<std::mutex>* /*lock*/, std::condition_variable* /*changed*/,
            const std::function<bool()>& done) override {
    return done();
  }
};

class BackgroundReset : public testing::Test {
 protected:
  BackgroundReset() {
    EXPECT_OK(Mkfs(device_.get(), {}, ""));
    formatted_ = device_->counters();
    auto held = std::make_unique<HeldDevice>(device_.get());
    held_ = held.get();
    volume_ = MountOk(std::move(held), {.patience = std::make_shared<NoPatience>()});
  }

  IOStatus Put(const std::string& name) {
    std::shared_ptr<File> file;
    RETURN_IF_ERROR(volume_->files().Create(name, FileKind::kData, &file));
    volume_->writer().SetPlacement(file.get(), DataPlacement());
    IOStatus status = volume_->writer().Append(file.get(), Content(1, 0, 96 << 10));  // a zone
    if (status.ok()) status = volume_->writer().Sync(file.get());
    const IOStatus finished = volume_->writer().FinishWriting(file.get());
    return status.ok() ? finished : status;
  }

  const std::unique_ptr<EmulatedDevice> device_ =
      MakeDevice("zones=40&zone_size=128K&zone_capacity=96K&max_active=8");
  Counters formatted_;
  HeldDevice* held_ = nullptr;
  std::unique_ptr<Volume> volume_;
};

TEST_F(BackgroundReset, NoSyncWaitsForAReset) {
  for (const char* name : {"/1", "/2", "/3"}) ASSERT_OK(Put(name));
  held_->Hold();
  for (const char* name : {"/1", "/2"}) {
    ASSERT_OK(volume_->files().Delete(name));
    ASSERT_OK(volume_->files().SyncNames());
  }
  EXPECT_TRUE(held_->AwaitReset());
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
  held_->Hold();
  for (int i = 1; i < count; ++i) ASSERT_OK(volume_->files().Delete("/" + std::to_string(i)));
  ASSERT_OK(volume_->files().SyncNames());
  ASSERT_TRUE(held_->AwaitReset());
  std::thread releases([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held_->Release();
  });
  for (int i = 1; i < count - 1; ++i) EXPECT_OK(Put("/again" + std::to_string(i))) << i;
  releases.join();
  EXPECT_FALSE(held_->gave_up());
}

}  // namespace
}  // namespace zlfs
