// Requirements for every zoned device. The tests run on the emulated back ends in many shapes, on a
// modelled drive, and on the kernel back end with a fake kernel.
//
// If ZLFS_TEST_DEVICE names a zoned block device, the tests also run on it and erase it. All of its
// zones must be empty, or ZLFS_TEST_ERASE must be its identity.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device_test_util.h"
#include "fake_kernel.h"
#include "modelled_test_util.h"
#include "zlfs/zoned/image.h"
#include "zlfs/zoned/open.h"

namespace zlfs {
namespace {

struct Limits {
  std::uint32_t active;
  std::uint32_t open;
};

// A device under test. Scheme dev is the device in ZLFS_TEST_DEVICE; scheme fake is the kernel back
// end with a fake kernel.
struct Subject {
  std::string name;
  std::string scheme;
  std::string options;
};

std::vector<Subject> Subjects() {
  std::vector<Subject> subjects = {{.name = "kernel", .scheme = "dev", .options = ""},
                                   {.name = "modelled", .scheme = "model", .options = ""}};
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  for (const char* scheme : {"mem", "file", "fake"}) {
    for (const std::uint64_t block : {512U, 4096U}) {
      for (const bool smaller : {false, true}) {
        for (const Limits limits : {Limits{0, 0}, {6, 6}, {14, 14}, {14, 6}, {0, 6}}) {
          const std::uint64_t size = 64 * block;
          // The smaller capacity is no power of two and, with small blocks, no multiple of 4096.
          const std::uint64_t capacity = smaller ? 37 * block : size;
          subjects.push_back(
              {.name = std::string(scheme) + "_b" + number(block) + (smaller ? "_less" : "_equal") +
                       "_a" + number(limits.active) + "_o" + number(limits.open),
               .scheme = scheme,
               .options = "zones=20&zone_size=" + number(size) +
                          "&zone_capacity=" + number(capacity) + "&block_size=" + number(block) +
                          "&max_active=" + number(limits.active) +
                          "&max_open=" + number(limits.open)});
        }
      }
    }
  }
  return subjects;
}

class Conformance : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    const Subject& subject = GetParam();
    std::string name = "conformance";
    if (subject.scheme == "dev") {
      const char* const device = std::getenv("ZLFS_TEST_DEVICE");
      if (device == nullptr) GTEST_SKIP() << "ZLFS_TEST_DEVICE names no zoned block device";
      name = device;
    }
    if (subject.scheme == "fake") {
      fake_ = std::make_unique<FakeKernel>(subject.options);
      name = fake_->path();
    }
    if (subject.scheme == "file") name = folder_ / "device";
    if (subject.scheme == "model") name = WriteModel(folder_ / "model.json");
    spec_ = subject.scheme + ":" + name + "?" + subject.options;
    if (subject.options.empty()) spec_.pop_back();
    ASSERT_OK(Open(Access::kReadWrite, &device_));
    ASSERT_NO_FATAL_FAILURE(Erase());
    // Reopens the device, so that its counters start at zero.
    device_.reset();
    ASSERT_OK(Open(Access::kReadWrite, &device_));
    geometry_ = device_->geometry();
  }

  void TearDown() override {
    for (const std::uint32_t zone : zones_) {
      if (device_ && InfoOf(*device_, zone).condition != ZoneCondition::kEmpty) {
        EXPECT_OK(device_->ResetZone(zone));
      }
    }
    device_.reset();
    fake_.reset();
    if (GetParam().scheme == "mem") Image::ForgetMemory("conformance");
  }

  IOStatus Open(Access access, std::unique_ptr<ZonedDevice>* device) {
    if (fake_) return OpenKernelDevice(fake_->path(), access, device, fake_->sysfs());
    return OpenDevice(spec_, access, nullptr, device);
  }

  // Empties all sequential zones, if that is allowed, and lists them in zones_.
  void Erase() {
    std::vector<ZoneInfo> report;
    ASSERT_OK(device_->Report(0, device_->geometry().zone_count, &report));
    const char* const allowed = std::getenv("ZLFS_TEST_ERASE");
    for (std::uint32_t zone = 0; zone < report.size(); ++zone) {
      if (report[zone].condition == ZoneCondition::kNoWritePointer) continue;
      if (report[zone].condition != ZoneCondition::kEmpty) {
        ASSERT_TRUE(allowed != nullptr && allowed == device_->geometry().identity)
            << "zone " << zone << " is not empty: ZLFS_TEST_ERASE=" << device_->geometry().identity
            << " allows to erase it";
        ASSERT_OK(device_->ResetZone(zone));
      }
      zones_.push_back(zone);
    }
    ASSERT_GE(zones_.size(), 16U) << "the tests need 16 sequential zones";
  }

  Blocks Make(std::uint64_t count, unsigned char salt = 0) const {
    return Blocks(count, geometry_.block_size, salt);
  }

  IOStatus WriteBlocks(std::uint32_t zone, std::uint64_t first, std::uint64_t count,
                       unsigned char salt = 0) {
    return device_->Write(zone, first * geometry_.block_size, Make(count, salt).slice());
  }

  // Writes the zone up to `left` blocks below its capacity.
  void Fill(std::uint32_t zone, std::uint64_t left) {
    const std::uint64_t blocks = InfoOf(*device_, zone).capacity / geometry_.block_size - left;
    for (std::uint64_t first = 0; first < blocks;) {
      const std::uint64_t count = std::min<std::uint64_t>(blocks - first, 256);
      ASSERT_OK(WriteBlocks(zone, first, count));
      first += count;
    }
  }

  ZoneCondition ConditionOf(std::uint32_t zone) { return InfoOf(*device_, zone).condition; }

  TemporaryFolder folder_;
  std::unique_ptr<FakeKernel> fake_;
  std::string spec_;
  std::unique_ptr<ZonedDevice> device_;
  Geometry geometry_;
  std::vector<std::uint32_t> zones_;  // the sequential ones
};

INSTANTIATE_TEST_SUITE_P(Devices, Conformance, testing::ValuesIn(Subjects()),
                         [](const auto& subject) { return subject.param.name; });

TEST_P(Conformance, AFreshDeviceIsEmpty) {
  EXPECT_TRUE(geometry_.block_size == 512 || geometry_.block_size == 4096);
  EXPECT_FALSE(geometry_.identity.empty());
  EXPECT_FALSE(geometry_.path.empty());
  std::vector<ZoneInfo> report;
  ASSERT_OK(device_->Report(0, geometry_.zone_count, &report));
  ASSERT_EQ(report.size(), geometry_.zone_count);
  for (const std::uint32_t zone : zones_) {
    EXPECT_GT(report[zone].capacity, 0U);
    EXPECT_LE(report[zone].capacity, geometry_.zone_size);
    EXPECT_EQ(report[zone].capacity % geometry_.block_size, 0U);
    EXPECT_EQ(report[zone].write_pointer, 0U);
    EXPECT_EQ(report[zone].condition, ZoneCondition::kEmpty);
  }
  EXPECT_EQ(device_->counters().bytes_written, 0U);
}

TEST_P(Conformance, WrittenBytesAreReadBack) {
  const std::uint32_t zone = zones_[1];
  const Blocks first = Make(2, 1);
  const Blocks second = Make(3, 2);
  const Blocks third = Make(1, 3);
  ASSERT_OK(device_->Write(zone, 0, first.slice()));
  ASSERT_OK(device_->Write(zone, 2ULL * geometry_.block_size, second.slice()));
  ASSERT_OK(device_->Write(zone, 5ULL * geometry_.block_size, third.slice()));
  const ZoneInfo info = InfoOf(*device_, zone);
  EXPECT_EQ(info.condition, ZoneCondition::kImplicitlyOpen);
  EXPECT_EQ(info.write_pointer, 6ULL * geometry_.block_size);
  std::string expected(first.view());
  expected.append(second.view()).append(third.view());
  EXPECT_EQ(ReadZone(*device_, zone, 0, expected.size()), expected);
  EXPECT_EQ(ReadZone(*device_, zone, 4ULL * geometry_.block_size, 2ULL * geometry_.block_size),
            expected.substr(4ULL * geometry_.block_size));
  ASSERT_OK(device_->Flush());
  const Counters counters = device_->counters();
  EXPECT_EQ(counters.writes, 3U);
  EXPECT_EQ(counters.bytes_written, expected.size());
  EXPECT_EQ(counters.flushes, 1U);
}

TEST_P(Conformance, AWriteOfManyBlocksArrivesInOrder) {
  const std::uint32_t zone = zones_[0];
  const std::uint64_t capacity = InfoOf(*device_, zone).capacity / geometry_.block_size;
  const Blocks blocks = Make(std::min<std::uint64_t>(capacity, 1500));
  ASSERT_OK(device_->Write(zone, 0, blocks.slice()));
  EXPECT_EQ(ReadZone(*device_, zone, 0, blocks.view().size()), blocks.view());
  EXPECT_EQ(device_->counters().bytes_written, blocks.view().size());
}

TEST_P(Conformance, WritesElsewhereThanAtTheWritePointerAreRefused) {
  const std::uint32_t zone = zones_[0];
  EXPECT_ERROR(WriteBlocks(zone, 1, 1), DeviceError::kNotAtWritePointer);
  EXPECT_EQ(ConditionOf(zone), ZoneCondition::kEmpty);
  ASSERT_OK(WriteBlocks(zone, 0, 2));
  EXPECT_ERROR(WriteBlocks(zone, 0, 1, 9), DeviceError::kNotAtWritePointer);
  EXPECT_ERROR(WriteBlocks(zone, 1, 1, 9), DeviceError::kNotAtWritePointer);
  EXPECT_ERROR(WriteBlocks(zone, 3, 1, 9), DeviceError::kNotAtWritePointer);
  ASSERT_OK(WriteBlocks(zone, 2, 1));
  EXPECT_EQ(ReadZone(*device_, zone, 0, 2ULL * geometry_.block_size), Make(2).view());
  EXPECT_EQ(device_->counters().bytes_written, 3ULL * geometry_.block_size);
}

TEST_P(Conformance, UnalignedCommandsAreRefused) {
  const std::uint32_t zone = zones_[0];
  const Blocks blocks = Make(2);
  const Slice whole = blocks.slice();
  const std::uint64_t half = geometry_.block_size / 2;
  EXPECT_ERROR(device_->Write(zone, half, whole), DeviceError::kUnaligned);
  EXPECT_ERROR(device_->Write(zone, 0, Slice(whole.data(), half)), DeviceError::kUnaligned);
  EXPECT_ERROR(device_->Write(zone, 0, Slice(whole.data() + half, geometry_.block_size)),
               DeviceError::kUnaligned);
  EXPECT_ERROR(device_->Write(zone, 0, Slice(whole.data(), 0)), DeviceError::kUnaligned);
  ASSERT_OK(device_->Write(zone, 0, whole));
  if (geometry_.read_alignment == 1) {
    EXPECT_EQ(ReadZone(*device_, zone, 3, 5), blocks.view().substr(3, 5));
  } else {
    const AlignedBuffer buffer = AllocateAligned(2ULL * geometry_.block_size);
    EXPECT_ERROR(device_->Read(zone, half, geometry_.block_size, buffer.get()),
                 DeviceError::kUnaligned);
    EXPECT_ERROR(device_->Read(zone, 0, half, buffer.get()), DeviceError::kUnaligned);
  }
}

TEST_P(Conformance, AZoneEndsAtItsCapacity) {
  const std::uint32_t zone = zones_[2];
  const std::uint64_t capacity = InfoOf(*device_, zone).capacity;
  const std::uint64_t last = capacity / geometry_.block_size - 1;
  EXPECT_ERROR(WriteBlocks(zone, last + 1, 1), DeviceError::kOutOfRange);
  ASSERT_NO_FATAL_FAILURE(Fill(zone, 1));
  EXPECT_ERROR(WriteBlocks(zone, last, 2), DeviceError::kBoundary);
  EXPECT_EQ(ConditionOf(zone), ZoneCondition::kImplicitlyOpen);
  ASSERT_OK(WriteBlocks(zone, last, 1, 5));
  EXPECT_EQ(ConditionOf(zone), ZoneCondition::kFull);
  EXPECT_EQ(InfoOf(*device_, zone).write_pointer, capacity);
  EXPECT_ERROR(WriteBlocks(zone, last + 1, 1), DeviceError::kZoneFull);
  EXPECT_ERROR(WriteBlocks(zone, 0, 1), DeviceError::kZoneFull);
  EXPECT_EQ(ReadZone(*device_, zone, last * geometry_.block_size, geometry_.block_size),
            Make(1, 5).view());
  const AlignedBuffer buffer = AllocateAligned(2ULL * geometry_.block_size);
  EXPECT_ERROR(
      device_->Read(zone, last * geometry_.block_size, 2ULL * geometry_.block_size, buffer.get()),
      DeviceError::kOutOfRange);
  EXPECT_EQ(device_->counters().bytes_written, capacity);
}

TEST_P(Conformance, ZonesThatDoNotExistAreRefused) {
  const std::uint32_t none = geometry_.zone_count;
  std::vector<ZoneInfo> report;
  EXPECT_ERROR(device_->Report(none, 1, &report), DeviceError::kOutOfRange);
  EXPECT_ERROR(device_->Report(1, none, &report), DeviceError::kOutOfRange);
  EXPECT_ERROR(WriteBlocks(none, 0, 1), DeviceError::kOutOfRange);
  EXPECT_ERROR(device_->OpenZone(none), DeviceError::kOutOfRange);
  EXPECT_ERROR(device_->ResetZone(none), DeviceError::kOutOfRange);
  const AlignedBuffer buffer = AllocateAligned(geometry_.block_size);
  EXPECT_ERROR(device_->Read(none, 0, geometry_.block_size, buffer.get()),
               DeviceError::kOutOfRange);
}

TEST_P(Conformance, ZonesGoThroughTheirStates) {
  const std::uint32_t zone = zones_[0];
  EXPECT_ERROR(device_->CloseZone(zone), DeviceError::kWrongState);
  ASSERT_OK(device_->ResetZone(zone));
  ASSERT_OK(device_->OpenZone(zone));
  EXPECT_EQ(ConditionOf(zone), ZoneCondition::kExplicitlyOpen);
  ASSERT_OK(device_->OpenZone(zone));
  ASSERT_OK(WriteBlocks(zone, 0, 1));
  EXPECT_EQ(ConditionOf(zone), ZoneCondition::kExplicitlyOpen);
  ASSERT_OK(device_->CloseZone(zone));
  EXPECT_EQ(ConditionOf(zone), ZoneCondition::kClosed);
  ASSERT_OK(device_->CloseZone(zone));
  ASSERT_OK(WriteBlocks(zone, 1, 1));
  EXPECT_EQ(ConditionOf(zone), ZoneCondition::kImplicitlyOpen);
  ASSERT_OK(device_->OpenZone(zone));
  EXPECT_EQ(ConditionOf(zone), ZoneCondition::kExplicitlyOpen);
  ASSERT_OK(device_->FinishZone(zone));
  EXPECT_EQ(ConditionOf(zone), ZoneCondition::kFull);
  ASSERT_OK(device_->FinishZone(zone));
  EXPECT_ERROR(device_->OpenZone(zone), DeviceError::kWrongState);
  EXPECT_ERROR(device_->CloseZone(zone), DeviceError::kWrongState);
  ASSERT_OK(device_->ResetZone(zone));
  EXPECT_EQ(ConditionOf(zone), ZoneCondition::kEmpty);
  EXPECT_EQ(InfoOf(*device_, zone).write_pointer, 0U);
  const Counters counters = device_->counters();
  EXPECT_EQ(counters.finishes, 2U);
  EXPECT_EQ(counters.resets, 2U);
}

TEST_P(Conformance, AFinishGivesTheRestOfTheZoneUp) {
  const std::uint32_t zone = zones_[3];
  const std::uint64_t capacity = InfoOf(*device_, zone).capacity;
  ASSERT_OK(WriteBlocks(zone, 0, 4));
  ASSERT_OK(device_->FinishZone(zone));
  EXPECT_EQ(InfoOf(*device_, zone).write_pointer, capacity);
  EXPECT_EQ(device_->counters().pad_bytes, capacity - 4ULL * geometry_.block_size);
  EXPECT_EQ(device_->counters().bytes_written, 4ULL * geometry_.block_size);
  EXPECT_EQ(ReadZone(*device_, zone, 0, 4ULL * geometry_.block_size), Make(4).view());
  EXPECT_ERROR(WriteBlocks(zone, 4, 1), DeviceError::kZoneFull);
  ASSERT_OK(device_->FinishZone(zone));  // a second finish must not count the given-up space again
  // An empty zone can be finished too.
  ASSERT_OK(device_->FinishZone(zones_[4]));
  EXPECT_EQ(ConditionOf(zones_[4]), ZoneCondition::kFull);
  EXPECT_EQ(device_->counters().pad_bytes, 2 * capacity - 4ULL * geometry_.block_size);
}

TEST_P(Conformance, AResetZoneTakesOtherBytes) {
  const std::uint32_t zone = zones_[0];
  ASSERT_OK(WriteBlocks(zone, 0, 4, 1));
  ASSERT_OK(device_->ResetZone(zone));
  ASSERT_OK(WriteBlocks(zone, 0, 2, 2));
  EXPECT_EQ(ReadZone(*device_, zone, 0, 2ULL * geometry_.block_size), Make(2, 2).view());
  // A real device can return any bytes above the write pointer.
  if (geometry_.kind != DeviceKind::kKernel) {
    const std::string zeros(2ULL * geometry_.block_size, '\0');
    EXPECT_EQ(ReadZone(*device_, zone, 2ULL * geometry_.block_size, zeros.size()), zeros);
  }
}

TEST_P(Conformance, NoMoreZonesAreActiveThanAllowed) {
  if (geometry_.max_active == 0) GTEST_SKIP() << "no limit of active zones";
  ASSERT_GT(zones_.size(), geometry_.max_active + 1);
  for (std::uint32_t i = 0; i < geometry_.max_active; ++i) ASSERT_OK(WriteBlocks(zones_[i], 0, 1));
  const std::uint32_t extra = zones_[geometry_.max_active];
  EXPECT_ERROR(WriteBlocks(extra, 0, 1), DeviceError::kActiveLimit);
  EXPECT_EQ(ConditionOf(extra), ZoneCondition::kEmpty);
  EXPECT_ERROR(device_->OpenZone(extra), DeviceError::kActiveLimit);
  // A closed zone is still active and writable.
  ASSERT_OK(device_->CloseZone(zones_[0]));
  EXPECT_ERROR(WriteBlocks(extra, 0, 1), DeviceError::kActiveLimit);
  ASSERT_OK(WriteBlocks(zones_[0], 1, 1));
  // Finished, reset and filled zones are not active.
  ASSERT_OK(device_->FinishZone(zones_[0]));
  ASSERT_OK(WriteBlocks(extra, 0, 1));
  ASSERT_OK(device_->ResetZone(zones_[1]));
  ASSERT_OK(WriteBlocks(zones_[1], 0, 1));
  EXPECT_ERROR(WriteBlocks(zones_[geometry_.max_active + 1], 0, 1), DeviceError::kActiveLimit);
}

TEST_P(Conformance, ImplicitlyOpenZonesGiveWay) {
  if (geometry_.max_open == 0) GTEST_SKIP() << "no limit of open zones";
  const std::uint32_t count =
      geometry_.max_active == 0 ? geometry_.max_open + 3 : geometry_.max_active;
  for (std::uint64_t round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_OK(WriteBlocks(zones_[i], round, 1, static_cast<unsigned char>(i)));
    }
  }
  std::vector<ZoneInfo> report;
  ASSERT_OK(device_->Report(0, geometry_.zone_count, &report));
  const auto open = std::count_if(report.begin(), report.end(),
                                  [](const ZoneInfo& zone) { return IsOpen(zone.condition); });
  const auto active = std::count_if(report.begin(), report.end(),
                                    [](const ZoneInfo& zone) { return IsActive(zone.condition); });
  EXPECT_LE(static_cast<std::uint32_t>(open), geometry_.max_open);
  EXPECT_EQ(static_cast<std::uint32_t>(active), count);
  for (std::uint32_t i = 0; i < count; ++i) {
    EXPECT_EQ(report[zones_[i]].write_pointer, 2ULL * geometry_.block_size);
    EXPECT_EQ(ReadZone(*device_, zones_[i], geometry_.block_size, geometry_.block_size),
              Make(1, static_cast<unsigned char>(i)).view());
  }
}

TEST_P(Conformance, ExplicitlyOpenZonesDoNotGiveWay) {
  if (geometry_.max_open == 0) GTEST_SKIP() << "no limit of open zones";
  for (std::uint32_t i = 0; i < geometry_.max_open; ++i) ASSERT_OK(device_->OpenZone(zones_[i]));
  const bool active_first = geometry_.max_active == geometry_.max_open;
  const DeviceError::Name error =
      active_first ? DeviceError::kActiveLimit : DeviceError::kOpenLimit;
  EXPECT_ERROR(WriteBlocks(zones_[geometry_.max_open], 0, 1), error);
  EXPECT_ERROR(device_->OpenZone(zones_[geometry_.max_open]), error);
  ASSERT_OK(WriteBlocks(zones_[0], 0, 1));
  if (!active_first) {
    ASSERT_OK(device_->CloseZone(zones_[0]));
    ASSERT_OK(WriteBlocks(zones_[geometry_.max_open], 0, 1));
  }
}

TEST_P(Conformance, OneHandleWritesAndOthersRead) {
  ASSERT_OK(WriteBlocks(zones_[0], 0, 2));
  std::unique_ptr<ZonedDevice> other;
  EXPECT_ERROR(Open(Access::kReadWrite, &other), DeviceError::kBusy);
  ASSERT_OK(Open(Access::kReadOnly, &other));
  EXPECT_EQ(other->geometry().identity, geometry_.identity);
  EXPECT_EQ(InfoOf(*other, zones_[0]).write_pointer, 2ULL * geometry_.block_size);
  ASSERT_OK(WriteBlocks(zones_[0], 2, 1, 8));
  EXPECT_EQ(InfoOf(*other, zones_[0]).write_pointer, 3ULL * geometry_.block_size);
  EXPECT_EQ(ReadZone(*other, zones_[0], 2ULL * geometry_.block_size, geometry_.block_size),
            Make(1, 8).view());
  EXPECT_ERROR(other->Write(zones_[1], 0, Make(1).slice()), DeviceError::kReadOnlyHandle);
  EXPECT_ERROR(other->Flush(), DeviceError::kReadOnlyHandle);
  EXPECT_ERROR(other->OpenZone(zones_[1]), DeviceError::kReadOnlyHandle);
  EXPECT_ERROR(other->CloseZone(zones_[0]), DeviceError::kReadOnlyHandle);
  EXPECT_ERROR(other->FinishZone(zones_[0]), DeviceError::kReadOnlyHandle);
  EXPECT_ERROR(other->ResetZone(zones_[0]), DeviceError::kReadOnlyHandle);
  EXPECT_EQ(ConditionOf(zones_[0]), ZoneCondition::kImplicitlyOpen);
}

TEST_P(Conformance, AReaderAloneKeepsWritersOut) {
  ASSERT_OK(WriteBlocks(zones_[0], 0, 2));
  std::unique_ptr<ZonedDevice> other;
  EXPECT_ERROR(Open(Access::kReadAlone, &other), DeviceError::kBusy);
  device_.reset();
  ASSERT_OK(Open(Access::kReadAlone, &other));
  EXPECT_EQ(ReadZone(*other, zones_[0], 0, 2ULL * geometry_.block_size), Make(2).view());
  EXPECT_ERROR(other->Write(zones_[0], 2ULL * geometry_.block_size, Make(1).slice()),
               DeviceError::kReadOnlyHandle);
  EXPECT_ERROR(other->ResetZone(zones_[0]), DeviceError::kReadOnlyHandle);
  EXPECT_ERROR(Open(Access::kReadWrite, &device_), DeviceError::kBusy);
  {
    std::unique_ptr<ZonedDevice> third;
    EXPECT_OK(Open(Access::kReadOnly, &third));
  }
  other.reset();
  ASSERT_OK(Open(Access::kReadWrite, &device_));
}

TEST_P(Conformance, ZonesOutliveTheHandle) {
  ASSERT_OK(WriteBlocks(zones_[0], 0, 3, 4));
  ASSERT_OK(device_->FinishZone(zones_[1]));
  ASSERT_OK(device_->Flush());
  device_.reset();
  ASSERT_OK(Open(Access::kReadWrite, &device_));
  EXPECT_TRUE(IsActive(ConditionOf(zones_[0])));
  EXPECT_EQ(InfoOf(*device_, zones_[0]).write_pointer, 3ULL * geometry_.block_size);
  EXPECT_EQ(ReadZone(*device_, zones_[0], 0, 3ULL * geometry_.block_size), Make(3, 4).view());
  EXPECT_EQ(ConditionOf(zones_[1]), ZoneCondition::kFull);
  EXPECT_EQ(device_->counters().bytes_written, 0U);
  // The new handle also knows the write pointers.
  ASSERT_OK(WriteBlocks(zones_[0], 3, 1));
  EXPECT_ERROR(WriteBlocks(zones_[1], 0, 1), DeviceError::kZoneFull);
}

TEST_P(Conformance, ThreadsWriteZonesOfTheirOwn) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint64_t kRounds = 30;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (std::uint64_t i = 0; i < kRounds; ++i) {
        EXPECT_OK(WriteBlocks(zones_[t], i, 1, static_cast<unsigned char>(t * 50 + i)));
        if (i % 10 == 5) {
          EXPECT_OK(device_->Flush());
        }
        if (i % 10 == 7) {
          EXPECT_OK(device_->CloseZone(zones_[t]));
        }
        EXPECT_EQ(ReadZone(*device_, zones_[t], i * geometry_.block_size, geometry_.block_size),
                  Make(1, static_cast<unsigned char>(t * 50 + i)).view());
      }
      EXPECT_OK(device_->FinishZone(zones_[t]));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Counters counters = device_->counters();
  EXPECT_EQ(counters.writes, kThreads * kRounds);
  EXPECT_EQ(counters.bytes_written, kThreads * kRounds * geometry_.block_size);
  EXPECT_EQ(counters.finishes, kThreads);
  // No zone stays active, so that the whole limit is available.
  for (std::uint32_t i = 0; i < std::max(geometry_.max_active, 1U); ++i) {
    EXPECT_OK(device_->OpenZone(zones_[kThreads + i % (zones_.size() - kThreads)])) << i;
    if (geometry_.max_open != 0 && i + 1 >= geometry_.max_open) break;
  }
}

}  // namespace
}  // namespace zlfs
