#include "zlfs/zoned/modelled_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device_test_util.h"
#include "modelled_test_util.h"
#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/drive_counts.h"
#include "zlfs/zoned/forwarding_device.h"
#include "zlfs/zoned/image.h"
#include "zlfs/zoned/open.h"

namespace zlfs {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kCapacity = 1 << 20;

// Contents that take this much longer.
class SlowContents final : public ForwardingDevice {
 public:
  SlowContents(std::unique_ptr<ZonedDevice> inner, std::chrono::milliseconds delay)
      : ForwardingDevice(inner.get()), owned_(std::move(inner)), delay_(delay) {}

 private:
  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                   std::uint64_t* written) override {
    std::this_thread::sleep_for(delay_);
    return ForwardingDevice::DoWrite(zone, offset, buffer, written);
  }
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override {
    std::this_thread::sleep_for(delay_);
    return ForwardingDevice::DoRead(zone, offset, size, buffer);
  }
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    std::this_thread::sleep_for(delay_);
    return ForwardingDevice::DoChange(zone, to);
  }

  const std::unique_ptr<ZonedDevice> owned_;
  const std::chrono::milliseconds delay_;
};

class Modelled : public testing::Test {
 protected:
  // Opens the small drive with these options.
  void Open(const std::string& options) {
    device_.reset();
    spec_ = "model:" + WriteModel(folder_ / "model.json") + options;
    ASSERT_OK(OpenDevice(spec_, Access::kReadWrite, nullptr, &device_));
  }
  // Opens the small drive with contents in memory that take this much longer.
  std::shared_ptr<DriveClock> OpenSlow(std::chrono::milliseconds delay, std::uint64_t dilation) {
    device_.reset();
    std::unique_ptr<ZonedDevice> contents;
    EXPECT_OK(OpenDevice("mem:slow?zones=20&zone_size=2M&zone_capacity=1M&max_active=6",
                         Access::kReadWrite, nullptr, &contents));
    const auto clock =
        std::make_shared<DriveClock>(zonemodel::ReadParameters(SmallZones()), dilation);
    device_ = std::make_unique<ModelledDevice>(
        std::make_unique<SlowContents>(std::move(contents), delay), Access::kReadWrite, clock);
    return clock;
  }
  void TearDown() override {
    device_.reset();
    Image::ForgetMemory("slow");
    Image::ForgetMemory(folder_ / "model.json");
  }

  void Fill(std::uint32_t zone, std::uint64_t bytes = kCapacity) {
    const Blocks blocks(bytes / 4096, 4096, 1);
    ASSERT_OK(device_->Write(zone, 0, blocks.slice()));
  }

  // The time in which threads work on zones 0 to `count` - 1, one each.
  template <typename Work>
  static Clock::duration InParallel(std::uint32_t count, const Work& work) {
    const Clock::time_point begin = Clock::now();
    std::vector<std::jthread> threads;
    for (std::uint32_t zone = 0; zone < count; ++zone) {
      threads.emplace_back([&work, zone] { EXPECT_OK(work(zone)); });
    }
    threads.clear();
    return Clock::now() - begin;
  }

  const TemporaryFolder folder_;
  std::string spec_;
  std::unique_ptr<ZonedDevice> device_;
};

TEST_F(Modelled, HasTheGeometryOfTheModel) {
  Open("");
  const Geometry& geometry = device_->geometry();
  EXPECT_EQ(geometry.block_size, 4096U);
  EXPECT_EQ(geometry.zone_count, 20U);
  EXPECT_EQ(geometry.zone_size, 2U << 20);
  EXPECT_EQ(geometry.max_active, 6U);
  EXPECT_EQ(geometry.max_open, 6U);
  EXPECT_EQ(geometry.identity, "model.mem." + (folder_ / "model.json").string());
  EXPECT_TRUE(geometry.waits);
  EXPECT_EQ(InfoOf(*device_, 0).capacity, kCapacity);
}

// A reset of a full zone takes 7 ms in the model.
TEST_F(Modelled, CommandsTakeTheTimeOfTheModelAndItsDilation) {
  for (const int dilation : {1, 4}) {
    Open("?dilation=" + std::to_string(dilation) +
         "&contents=" + (folder_ / ("contents-" + std::to_string(dilation))).string());
    Fill(0);
    EXPECT_GE(InParallel(1, [&](std::uint32_t zone) { return device_->ResetZone(zone); }),
              dilation * 7ms);
  }
}

// The firmware resets one zone at a time.
TEST_F(Modelled, CommandsOfSeveralThreadsShareTheDrive) {
  Open("");
  for (const std::uint32_t zone : {0U, 1U, 2U}) Fill(zone);
  EXPECT_GE(InParallel(3, [&](std::uint32_t zone) { return device_->ResetZone(zone); }), 3 * 7ms);
}

// A read of 4 KiB takes 55 us in the model.
TEST_F(Modelled, ReadsOfSeveralDiesRunSideBySide) {
  const std::string counts = folder_ / "counts";
  Open("?dilation=1000&counts=" + counts);
  Fill(0, 256 << 10);
  const auto read = [&](std::uint32_t die) {
    const AlignedBuffer data = AllocateAligned(4096);
    return device_->Read(0, die * (64U << 10), 4096, data.get());
  };
  std::unique_ptr<DriveCounts> seen;
  ASSERT_OK(DriveCounts::Open(counts, &seen));
  const auto latency_of_a_read = [&](std::uint32_t die) {
    const std::uint64_t before = seen->Get(DriveCount::kLatency);
    EXPECT_OK(read(die));
    return std::chrono::nanoseconds(seen->Get(DriveCount::kLatency) - before);
  };
  // Until the programs are done, reads are answered from the buffer. On a busy machine such a read
  // can take long, too, so the model's latency decides.
  for (const std::uint32_t die : {0U, 1U, 2U, 3U}) {
    while (latency_of_a_read(die) < 50ms) std::this_thread::sleep_for(10ms);
  }
  // A busy machine starts threads late, so several attempts are allowed.
  Clock::duration four = Clock::duration::max();
  for (int attempt = 0; attempt < 20 && four >= 4 * 55ms; ++attempt) {
    four = std::min(four, InParallel(4, read));
  }
  EXPECT_GE(four, 55ms);
  EXPECT_LT(four, 4 * 55ms) << "one after the other";
}

TEST_F(Modelled, ContentsInAFileOutliveTheDevice) {
  const std::string contents = "?contents=" + (folder_ / "contents").string();
  Open(contents);
  Fill(3, 64 << 10);
  Open(contents);
  EXPECT_EQ(InfoOf(*device_, 3).write_pointer, 64U << 10);
  EXPECT_EQ(device_->geometry().identity.substr(0, 11), "model.file.");
}

TEST_F(Modelled, ReadsAreOfWholeBlocks) {
  const std::string counts = folder_ / "counts";
  Open("?counts=" + counts);
  Fill(0, 64 << 10);
  const std::string whole = ReadZone(*device_, 0, 0, 64 << 10);
  std::unique_ptr<DriveCounts> seen;
  ASSERT_OK(DriveCounts::Open(counts, &seen));
  for (const auto& [offset, size, blocks] : std::vector<std::array<std::uint64_t, 3>>{
           {0, 1, 1}, {4095, 1, 1}, {4095, 2, 2}, {100, 4096, 2}, {8192, 4096, 1}}) {
    const std::uint64_t before = seen->Get(DriveCount::kReadBytes);
    const std::uint64_t loaded = seen->Get(DriveCount::kLoadedBytes);
    std::string read(size, '\0');
    ASSERT_OK(device_->Read(0, offset, size, read.data()));
    EXPECT_EQ(read, whole.substr(offset, size));
    EXPECT_EQ(seen->Get(DriveCount::kReadBytes) - before, blocks * 4096);
    EXPECT_EQ(seen->Get(DriveCount::kLoadedBytes) - loaded, blocks * 4096);
  }
}

TEST_F(Modelled, CountsInAFileAreOfAllHandles) {
  const std::string counts = folder_ / "counts";
  Open("?contents=" + (folder_ / "contents").string() + "&counts=" + counts);
  Fill(0, 640 << 10);  // two requests
  EXPECT_EQ(ReadZone(*device_, 0, 0, 4096).size(), 4096U);
  ASSERT_OK(device_->FinishZone(0));
  ASSERT_OK(device_->ResetZone(0));
  // Another process would map the file, too.
  std::unique_ptr<DriveCounts> seen;
  ASSERT_OK(DriveCounts::Open(counts, &seen));
  const std::map<DriveCount, std::uint64_t> wanted = {
      {DriveCount::kStores, 4},
      {DriveCount::kStoredBytes, 640 << 10},
      {DriveCount::kLoads, 1},
      {DriveCount::kLoadedBytes, 4096},
      {DriveCount::kReads, 1},
      {DriveCount::kReadBytes, 4096},
      {DriveCount::kWrites, 2},
      {DriveCount::kWriteBytes, 640 << 10},
      {DriveCount::kFinishes, 1},
      {DriveCount::kResets, 1},
      {DriveCount::kHostBytes, 640 << 10},
      {DriveCount::kPadBytes, kCapacity - (640 << 10)}};
  for (const auto& [count, value] : wanted) {
    EXPECT_EQ(seen->Get(count), value) << static_cast<int>(count);
  }
  EXPECT_GE(seen->Get(DriveCount::kRequests), 5U);
  EXPECT_GE(seen->Get(DriveCount::kLatency), 1'000'000U);  // most of it of the reset
  EXPECT_GE(seen->Get(DriveCount::kBusy), seen->Get(DriveCount::kLatency));
  EXPECT_LE(seen->Get(DriveCount::kOnTime), seen->Get(DriveCount::kRequests));

  std::ifstream lines(counts + ".zones");
  std::vector<std::string> notes;
  for (std::string ended, zone, action, took, written;
       lines >> ended >> zone >> action >> took >> written;) {
    EXPECT_GT(std::stoull(ended), std::stoull(took));
    notes.push_back(zone + " " + action + " " + written);
  }
  EXPECT_EQ(notes,
            (std::vector<std::string>{"0 first-write 0", "0 finish 655360", "0 reset 1048576"}));
}

TEST_F(Modelled, TheTimeOfTheContentsCanBeLate) {
  const auto clock = OpenSlow(30ms, 1);
  const Blocks block(1, 4096, 1);
  char read = 0;
  const auto late = [&](const auto& work) {
    const std::uint64_t before = clock->counts()->Get(DriveCount::kLate);
    EXPECT_OK(work());
    return std::chrono::nanoseconds(clock->counts()->Get(DriveCount::kLate) - before);
  };
  EXPECT_GE(late([&] { return device_->Write(0, 0, block.slice()); }), 20ms);
  EXPECT_GE(late([&] { return device_->Read(0, 0, 1, &read); }), 20ms);
  EXPECT_GE(late([&] { return device_->ResetZone(0); }), 20ms);
  EXPECT_EQ(clock->counts()->Get(DriveCount::kOnTime), 0U);
}

// A reset of a full zone takes 7 ms in the model.
TEST_F(Modelled, TheContentsAreChangedWhileTheDriveWorks) {
  OpenSlow(500ms, 100);
  Fill(0);
  const auto took = InParallel(1, [&](std::uint32_t zone) { return device_->ResetZone(zone); });
  EXPECT_GE(took, 700ms);
  EXPECT_LT(took, 1100ms) << "one after the other";
}

TEST_F(Modelled, AnUnwritableFileOfCountsIsRefused) {
  const std::string spec = "model:" + WriteModel(folder_ / "model.json") + "?counts=/proc/none";
  EXPECT_FALSE(OpenDevice(spec, Access::kReadWrite, nullptr, &device_).ok());
}

TEST_F(Modelled, AClockBeginsWithTheStateOfItsContents) {
  DriveClock clock(zonemodel::ReadParameters(SmallZones()), 1);
  clock.Prepare(
      5,
      {.capacity = kCapacity, .write_pointer = 8192, .condition = ZoneCondition::kImplicitlyOpen});
  const auto write = [&clock](std::uint64_t offset) {
    const zonemodel::Command command{.operation = zonemodel::Operation::kWrite,
                                     .conventional = false,
                                     .zone = 5,
                                     .offset = offset,
                                     .bytes = 4096};
    return clock.Run({&command, 1}, Clock::now());
  };
  EXPECT_EQ(write(0), zonemodel::Status::kInvalidWrite);
  EXPECT_EQ(write(8192), zonemodel::Status::kOk);
}

TEST_F(Modelled, RefusesWhatIsNoModelOrNoOption) {
  const std::string model = WriteModel(folder_ / "model.json");
  zonemodel::Json conventional = SmallZones();
  conventional.erase("zones");
  WriteModel(folder_ / "conventional.json", conventional);
  std::ofstream(folder_ / "text.json") << "schema_version: 1";
  const auto refused = [&](const std::string& spec) {
    return OpenDevice("model:" + spec, Access::kReadWrite, nullptr, &device_);
  };
  EXPECT_ERROR(refused(folder_ / "none.json"), DeviceError::kMissing);
  for (const std::string& spec :
       {std::string(folder_ / "text.json"), std::string(folder_ / "conventional.json"),
        model + "?dilation=0", model + "?dilation=1001", model + "?dilation=x"}) {
    EXPECT_ERROR(refused(spec), DeviceError::kBadSpec) << spec;
  }
  for (const char* option : {"?zones=4", "?aux=/x"}) {
    EXPECT_ERROR(refused(model + option), "unknown-option") << option;
  }
}

}  // namespace
}  // namespace zlfs
