// The kernel back end with a misbehaving fake kernel.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device_test_util.h"
#include "fake_kernel.h"
#include "zlfs/tests/emulated_faults.h"
#include "zlfs/zoned/open.h"

namespace zlfs {
namespace {

constexpr std::uint32_t kBlock = 4096;
constexpr std::uint64_t kZoneSize = 32 * kBlock;
constexpr std::uint64_t kCapacity = 24 * kBlock;

class KernelDeviceTest : public testing::Test {
 protected:
  static std::string Shape() {
    return "zones=8&zone_size=" + std::to_string(kZoneSize) +
           "&zone_capacity=" + std::to_string(kCapacity) + "&max_active=4";
  }

  IOStatus Open(Access access = Access::kReadWrite) {
    device_.reset();
    return OpenKernelDevice(kernel_.path(), access, &device_, kernel_.sysfs());
  }

  IOStatus WriteBlocks(std::uint32_t zone, std::uint64_t first, std::uint64_t count) {
    return device_->Write(zone, first * kBlock, Blocks(count, kBlock, 1).slice());
  }

  FakeKernel kernel_{Shape()};
  std::unique_ptr<ZonedDevice> device_;
};

TEST_F(KernelDeviceTest, LearnsWhatTheDeviceIs) {
  ASSERT_OK(Open());
  const Geometry& geometry = device_->geometry();
  EXPECT_EQ(geometry.kind, DeviceKind::kKernel);
  EXPECT_EQ(geometry.block_size, kBlock);
  EXPECT_EQ(geometry.read_alignment, kBlock);
  EXPECT_EQ(geometry.zone_size, kZoneSize);
  EXPECT_EQ(geometry.zone_count, 8U);
  EXPECT_EQ(geometry.max_active, 4U) << "from the path node";
  EXPECT_EQ(geometry.max_open, 4U);
  EXPECT_EQ(geometry.identity, "fake:1");
}

TEST_F(KernelDeviceTest, RefusesWhatItCannotUse) {
  kernel_.block_size = 1024;
  EXPECT_ERROR(Open(), DeviceError::kBadSpec);
  kernel_.block_size = kBlock;
  kernel_.reports_geometry = false;
  EXPECT_ERROR(Open(), DeviceError::kIo);
  kernel_.reports_geometry = true;
  kernel_.missing_zones = 1;
  EXPECT_ERROR(Open(), DeviceError::kIo);
  kernel_.missing_zones = 0;
  kernel_.exclusively_open = true;
  EXPECT_ERROR(Open(), DeviceError::kBusy);
  EXPECT_ERROR(Open(Access::kReadAlone), DeviceError::kBusy);
  EXPECT_OK(Open(Access::kReadOnly));
}

TEST_F(KernelDeviceTest, NamesErrorsOfTheKernel) {
  ASSERT_OK(Open());
  ASSERT_OK(WriteBlocks(0, 0, 1));
  const AlignedBuffer buffer = AllocateAligned(kBlock);
  for (const DeviceError::Name error :
       {DeviceError::kActiveLimit, DeviceError::kOpenLimit, DeviceError::kNoSpace,
        DeviceError::kBusy, DeviceError::kMissing, DeviceError::kPermission, DeviceError::kIo}) {
    for (const Operation operation :
         {Operation::kWrite, Operation::kRead, Operation::kOpen, Operation::kReset}) {
      kernel_.faults().Inject({.operation = operation, .error = error});
    }
    EXPECT_ERROR(WriteBlocks(0, 1, 1), error);
    EXPECT_ERROR(device_->Read(0, 0, kBlock, buffer.get()), error);
    EXPECT_ERROR(device_->OpenZone(1), error);
    EXPECT_ERROR(device_->ResetZone(0), error);
  }
  kernel_.faults().Inject({.operation = Operation::kFlush});
  EXPECT_ERROR(device_->Flush(), DeviceError::kIo);
  const Counters counters = device_->counters();
  EXPECT_EQ(counters.writes, 1U);
  EXPECT_EQ(counters.resets + counters.flushes, 0U);
  // The faults leave no effect.
  ASSERT_OK(WriteBlocks(0, 1, 1));
  ASSERT_OK(device_->Flush());
}

TEST_F(KernelDeviceTest, ZonesThatTheDeviceGivesUpAreNamed) {
  ASSERT_OK(Open());
  for (std::uint32_t zone = 0; zone < 2; ++zone) ASSERT_OK(WriteBlocks(zone, 0, 1));
  EmulatedFaults::BreakZone(kernel_.device(), 0, ZoneCondition::kReadOnly);
  EmulatedFaults::BreakZone(kernel_.device(), 1, ZoneCondition::kOffline);
  const AlignedBuffer buffer = AllocateAligned(kBlock);
  EXPECT_OK(device_->Read(0, 0, kBlock, buffer.get()));
  EXPECT_ERROR(device_->Read(1, 0, kBlock, buffer.get()), DeviceError::kZoneOffline);
  for (const auto& [zone, error] :
       {std::pair(0U, DeviceError::kZoneReadOnly), std::pair(1U, DeviceError::kZoneOffline)}) {
    EXPECT_ERROR(WriteBlocks(zone, 1, 1), error);
    EXPECT_ERROR(device_->FinishZone(zone), error);
    EXPECT_ERROR(device_->ResetZone(zone), error);
  }
  // A new handle finds the zones in these conditions.
  ASSERT_OK(Open());
  EXPECT_ERROR(WriteBlocks(0, 0, 1), DeviceError::kZoneReadOnly);
  EXPECT_ERROR(WriteBlocks(1, 0, 1), DeviceError::kZoneOffline);
}

TEST_F(KernelDeviceTest, GoesOnWhereAFailedWriteEnded) {
  constexpr std::uint64_t request = 3;
  kernel_.LimitRequests(1024, request);
  ASSERT_OK(Open());
  ASSERT_OK(WriteBlocks(0, 0, 2));
  // The first request of the write succeeds; the second writes one block and fails.
  kernel_.faults().Inject({.after = 1, .landed_blocks = 1});
  EXPECT_ERROR(WriteBlocks(0, 2, 12), DeviceError::kIo);
  const std::uint64_t now = 2 + request + 1;
  EXPECT_EQ(InfoOf(*device_, 0).write_pointer, now * kBlock);
  EXPECT_EQ(device_->counters().bytes_written, now * kBlock);
  EXPECT_EQ(device_->counters().writes, 1U);
  EXPECT_ERROR(WriteBlocks(0, 2, 1), DeviceError::kNotAtWritePointer);
  ASSERT_OK(WriteBlocks(0, now, 1));
  ASSERT_OK(device_->FinishZone(0));
  EXPECT_EQ(device_->counters().pad_bytes, kCapacity - (now + 1) * kBlock);
}

TEST_F(KernelDeviceTest, InterruptedAndShortTransfersAreCompleted) {
  ASSERT_OK(Open());
  kernel_.short_transfers = true;
  kernel_.interruptions = 3;
  const Blocks blocks(24, kBlock, 6);
  ASSERT_OK(device_->Write(3, 0, blocks.slice()));
  EXPECT_EQ(kernel_.interruptions, 0);
  kernel_.interruptions = 3;
  EXPECT_EQ(ReadZone(*device_, 3, 0, kCapacity), blocks.view());
  EXPECT_EQ(kernel_.interruptions, 0);
  EXPECT_EQ(device_->counters().bytes_written, kCapacity);
  EXPECT_EQ(device_->counters().writes, 1U);
}

TEST_F(KernelDeviceTest, EachWriteCommandIsOneRequest) {
  const Blocks blocks(24, kBlock, 2);
  for (const auto& [kilobytes, segments] : {std::pair(1024, 5), std::pair(12, 128)}) {
    kernel_.LimitRequests(static_cast<std::uint64_t>(kilobytes),
                          static_cast<std::uint64_t>(segments));
    ASSERT_OK(Open());
    const std::uint64_t before = kernel_.device().counters().writes;
    ASSERT_OK(device_->Write(0, 0, blocks.slice()));
    EXPECT_EQ(ReadZone(*device_, 0, 0, kCapacity), blocks.view());
    const std::uint64_t commands = kernel_.device().counters().writes - before;
    EXPECT_EQ(commands, segments == 5 ? 5U : 8U) << "as few as possible";
    ASSERT_OK(device_->ResetZone(0));
  }
  EXPECT_EQ(kernel_.split_requests, 0U);
}

TEST_F(KernelDeviceTest, CountsWhatTheDeviceCounts) {
  ASSERT_OK(Open());
  ASSERT_OK(device_->OpenZone(0));
  ASSERT_OK(WriteBlocks(0, 0, 5));
  ASSERT_OK(device_->CloseZone(0));
  ASSERT_OK(WriteBlocks(1, 0, 24));
  ASSERT_OK(device_->FinishZone(0));
  ASSERT_OK(device_->FinishZone(1));
  ASSERT_OK(device_->ResetZone(1));
  ASSERT_OK(device_->Flush());
  EXPECT_ERROR(WriteBlocks(1, 1, 1), DeviceError::kNotAtWritePointer);
  const Counters ours = device_->counters();
  const Counters device = kernel_.device().counters();
  EXPECT_EQ(ours.bytes_written, device.bytes_written);
  EXPECT_EQ(ours.pad_bytes, device.pad_bytes);
  EXPECT_EQ(ours.finishes, device.finishes);
  EXPECT_EQ(ours.resets, device.resets);
  EXPECT_EQ(ours.flushes, device.flushes);
  EXPECT_EQ(ours.bytes_written, 29 * kBlock);
  EXPECT_EQ(ours.pad_bytes, kCapacity - 5 * kBlock);
}

}  // namespace
}  // namespace zlfs
