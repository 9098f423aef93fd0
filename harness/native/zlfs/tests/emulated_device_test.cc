// Features of the emulated device that real zoned devices lack: shrinking and broken zones, power
// loss, survival of a killed process, and cloning.

#include "zlfs/zoned/emulated_device.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device_test_util.h"
#include "zlfs/tests/emulated_faults.h"

namespace zlfs {
namespace {

constexpr std::uint32_t kBlock = 4096;
constexpr std::uint64_t kZoneBlocks = 16;
constexpr std::uint64_t kCapacityBlocks = 12;
constexpr std::uint32_t kZones = 10;
constexpr std::uint32_t kMaxActive = 4;

ShapeRequest Shape(bool volatile_cache = false) {
  return {{"block_size", kBlock},
          {"zones", kZones},
          {"zone_size", kZoneBlocks * kBlock},
          {"zone_capacity", kCapacityBlocks * kBlock},
          {"max_active", kMaxActive},
          {"cache", volatile_cache ? 1 : 0}};
}

IOStatus OpenMemory(bool volatile_cache, std::unique_ptr<EmulatedDevice>* device) {
  return EmulatedDevice::Open(DeviceKind::kMemory, "test", Shape(volatile_cache),
                              Access::kReadWrite, device);
}

IOStatus OpenFile(const std::string& path, const ShapeRequest& request, Access access,
                  std::unique_ptr<EmulatedDevice>* device) {
  return EmulatedDevice::Open(DeviceKind::kFile, path, request, access, device);
}

IOStatus WriteBlocks(ZonedDevice& device, std::uint32_t zone, std::uint64_t first,
                     std::uint64_t count, unsigned char salt = 0) {
  return device.Write(zone, first * kBlock, Blocks(count, kBlock, salt).slice());
}

std::string ReadBlocks(ZonedDevice& device, std::uint32_t zone, std::uint64_t first,
                       std::uint64_t count) {
  return ReadZone(device, zone, first * kBlock, count * kBlock);
}

std::string Zeros(std::uint64_t blocks) { return std::string(blocks * kBlock, '\0'); }

std::uint64_t WrittenBlocks(ZonedDevice& device, std::uint32_t zone) {
  return InfoOf(device, zone).write_pointer / kBlock;
}

class EmulatedDeviceTest : public testing::Test {
 protected:
  void Make(bool volatile_cache = false) {
    device_.reset();
    Image::ForgetMemory("test");
    ASSERT_OK(OpenMemory(volatile_cache, &device_));
  }
  void TearDown() override {
    device_.reset();
    Image::ForgetMemory("test");
    Image::ForgetMemory("clone");
  }

  ZoneCondition ConditionOf(std::uint32_t zone) { return InfoOf(*device_, zone).condition; }

  std::unique_ptr<EmulatedDevice> device_;
};

TEST_F(EmulatedDeviceTest, ShrunkenLimitsConcernNewZonesOnly) {
  ASSERT_NO_FATAL_FAILURE(Make());
  for (std::uint32_t zone = 0; zone < 3; ++zone) ASSERT_OK(WriteBlocks(*device_, zone, 0, 1));
  EmulatedFaults::SetLimits(*device_, 2, 2);
  EXPECT_ERROR(WriteBlocks(*device_, 3, 0, 1), DeviceError::kActiveLimit);
  ASSERT_OK(WriteBlocks(*device_, 0, 1, 1));
  ASSERT_OK(device_->FinishZone(0));
  EXPECT_ERROR(WriteBlocks(*device_, 3, 0, 1), DeviceError::kActiveLimit);
  ASSERT_OK(device_->FinishZone(1));
  ASSERT_OK(WriteBlocks(*device_, 3, 0, 1));
  EXPECT_EQ(device_->geometry().max_active, kMaxActive);
}

TEST_F(EmulatedDeviceTest, BrokenZonesHaveTheirOwnErrors) {
  ASSERT_NO_FATAL_FAILURE(Make());
  for (std::uint32_t zone = 0; zone < kMaxActive; ++zone) {
    ASSERT_OK(WriteBlocks(*device_, zone, 0, 2));
  }
  EmulatedFaults::BreakZone(*device_, 0, ZoneCondition::kReadOnly);
  EmulatedFaults::BreakZone(*device_, 1, ZoneCondition::kOffline);
  EXPECT_EQ(ReadBlocks(*device_, 0, 0, 2), Blocks(2, kBlock, 0).view());
  char byte = 0;
  EXPECT_ERROR(device_->Read(1, 0, 1, &byte), DeviceError::kZoneOffline);
  for (const auto& [zone, error] :
       {std::pair(0U, DeviceError::kZoneReadOnly), std::pair(1U, DeviceError::kZoneOffline)}) {
    EXPECT_ERROR(WriteBlocks(*device_, zone, 2, 1), error);
    EXPECT_ERROR(device_->OpenZone(zone), error);
    EXPECT_ERROR(device_->CloseZone(zone), error);
    EXPECT_ERROR(device_->FinishZone(zone), error);
    EXPECT_ERROR(device_->ResetZone(zone), error);
  }
  // The broken zones are no longer active.
  ASSERT_OK(WriteBlocks(*device_, 4, 0, 1));
  ASSERT_OK(WriteBlocks(*device_, 5, 0, 1));
  EXPECT_ERROR(WriteBlocks(*device_, 6, 0, 1), DeviceError::kActiveLimit);
}

TEST_F(EmulatedDeviceTest, WithoutACacheAPowerLossClosesZonesOnly) {
  ASSERT_NO_FATAL_FAILURE(Make());
  ASSERT_OK(WriteBlocks(*device_, 0, 0, 2));
  ASSERT_OK(device_->OpenZone(1));
  EXPECT_TRUE(EmulatedFaults::Cached(*device_).empty());
  EmulatedFaults::PowerLoss(*device_, {});
  EXPECT_EQ(ConditionOf(0), ZoneCondition::kClosed);
  EXPECT_EQ(WrittenBlocks(*device_, 0), 2U);
  EXPECT_EQ(ConditionOf(1), ZoneCondition::kEmpty);
  ASSERT_OK(WriteBlocks(*device_, 0, 2, 1));
}

TEST_F(EmulatedDeviceTest, PowerLossTearsAtEachBlockOfEachWrite) {
  // Flushes three blocks, then writes 1, 2, 3, 1 and 4 blocks to two zones.
  struct Step {
    std::uint32_t zone;
    std::uint64_t first;
    std::uint64_t count;
  };
  constexpr Step kSteps[] = {{0, 3, 1}, {1, 0, 2}, {0, 4, 3}, {1, 2, 1}, {0, 7, 4}};
  for (std::size_t whole = 0; whole <= std::size(kSteps); ++whole) {
    const std::uint64_t torn_limit = whole < std::size(kSteps) ? kSteps[whole].count : 1;
    for (std::uint64_t torn = 0; torn < torn_limit; ++torn) {
      ASSERT_NO_FATAL_FAILURE(Make(true));
      ASSERT_OK(WriteBlocks(*device_, 0, 0, 3, 1));
      ASSERT_OK(device_->Flush());
      std::uint64_t expected[] = {3, 0};
      for (std::size_t i = 0; i < std::size(kSteps); ++i) {
        const Step& step = kSteps[i];
        ASSERT_OK(WriteBlocks(*device_, step.zone, step.first, step.count, 2));
        if (i < whole) expected[step.zone] += step.count;
        if (i == whole) expected[step.zone] += torn;
      }
      ASSERT_EQ(EmulatedFaults::Cached(*device_).size(), std::size(kSteps));
      EmulatedFaults::PowerLoss(*device_, whole, torn);
      for (const std::uint32_t zone : {0U, 1U}) {
        EXPECT_EQ(WrittenBlocks(*device_, zone), expected[zone]) << whole << " " << torn;
        EXPECT_EQ(ConditionOf(zone),
                  expected[zone] == 0 ? ZoneCondition::kEmpty : ZoneCondition::kClosed);
        const std::uint64_t lost = kCapacityBlocks - expected[zone];
        EXPECT_EQ(ReadBlocks(*device_, zone, expected[zone], lost), Zeros(lost));
      }
      EXPECT_EQ(ReadBlocks(*device_, 0, 0, 3), Blocks(3, kBlock, 1).view());
      EXPECT_TRUE(EmulatedFaults::Cached(*device_).empty());
      ASSERT_OK(WriteBlocks(*device_, 1, expected[1], 1, 3));
    }
  }
}

TEST_F(EmulatedDeviceTest, WritesToDifferentZonesAreLostIndependently) {
  ASSERT_NO_FATAL_FAILURE(Make(true));
  ASSERT_OK(WriteBlocks(*device_, 0, 0, 2));
  ASSERT_OK(WriteBlocks(*device_, 1, 0, 2));
  ASSERT_OK(WriteBlocks(*device_, 0, 2, 2));
  // The first write is torn, so the third cannot survive although the arguments keep it.
  EmulatedFaults::PowerLoss(*device_, std::vector<std::uint64_t>{1, 2, 2});
  EXPECT_EQ(WrittenBlocks(*device_, 0), 1U);
  EXPECT_EQ(WrittenBlocks(*device_, 1), 2U);
}

TEST_F(EmulatedDeviceTest, ResetsAndFinishesAreDurable) {
  ASSERT_NO_FATAL_FAILURE(Make(true));
  ASSERT_OK(WriteBlocks(*device_, 0, 0, 4, 1));
  ASSERT_OK(WriteBlocks(*device_, 1, 0, 4, 1));
  ASSERT_OK(device_->Flush());
  ASSERT_OK(device_->ResetZone(0));
  ASSERT_OK(WriteBlocks(*device_, 0, 0, 2, 2));
  ASSERT_OK(device_->ResetZone(0));
  ASSERT_OK(WriteBlocks(*device_, 1, 4, 2, 2));
  ASSERT_OK(device_->FinishZone(1));
  EXPECT_EQ(EmulatedFaults::Cached(*device_)[0].blocks, 0U) << "the zone was reset since";
  EmulatedFaults::PowerLoss(*device_, 0, 0);
  EXPECT_EQ(ConditionOf(0), ZoneCondition::kEmpty);
  EXPECT_EQ(ConditionOf(1), ZoneCondition::kFull);
  EXPECT_EQ(ReadBlocks(*device_, 1, 0, 4), Blocks(4, kBlock, 1).view());
  EXPECT_EQ(ReadBlocks(*device_, 1, 4, 2), Zeros(2)) << "a full zone does not prove its bytes";
}

TEST_F(EmulatedDeviceTest, AFilledZoneIsActiveAgainWhenItLosesItsEnd) {
  ASSERT_NO_FATAL_FAILURE(Make(true));
  ASSERT_OK(WriteBlocks(*device_, 0, 0, 4));
  ASSERT_OK(device_->Flush());
  ASSERT_OK(WriteBlocks(*device_, 0, 4, kCapacityBlocks - 4));
  EXPECT_EQ(ConditionOf(0), ZoneCondition::kFull);
  EmulatedFaults::PowerLoss(*device_, 0, 3);
  EXPECT_EQ(ConditionOf(0), ZoneCondition::kClosed);
  EXPECT_EQ(WrittenBlocks(*device_, 0), 7U);
}

TEST_F(EmulatedDeviceTest, PowerLossNeverLeavesTooManyActiveZones) {
  ASSERT_NO_FATAL_FAILURE(Make(true));
  ASSERT_OK(WriteBlocks(*device_, 0, 0, 1));
  ASSERT_OK(device_->Flush());
  ASSERT_OK(WriteBlocks(*device_, 0, 1, kCapacityBlocks - 1));
  for (std::uint32_t zone = 1; zone <= kMaxActive; ++zone) {
    ASSERT_OK(WriteBlocks(*device_, zone, 0, 1));
  }
  EmulatedFaults::PowerLoss(*device_, std::vector<std::uint64_t>{2, 1, 1, 1, 1});
  EXPECT_EQ(ConditionOf(0), ZoneCondition::kFull);
  EXPECT_EQ(ReadBlocks(*device_, 0, 3, 1), Zeros(1));
  EXPECT_EQ(ConditionOf(4), ZoneCondition::kClosed);
  EXPECT_ERROR(WriteBlocks(*device_, 9, 0, 1), DeviceError::kActiveLimit);
}

TEST_F(EmulatedDeviceTest, TheNextHandleKnowsWhatWasFlushed) {
  ASSERT_NO_FATAL_FAILURE(Make(true));
  ASSERT_OK(WriteBlocks(*device_, 0, 0, 2));
  ASSERT_OK(device_->Flush());
  ASSERT_OK(WriteBlocks(*device_, 0, 2, 2));
  device_.reset();
  ASSERT_OK(OpenMemory(true, &device_));
  EXPECT_EQ(WrittenBlocks(*device_, 0), 4U);
  EmulatedFaults::PowerLoss(*device_, {});
  EXPECT_EQ(WrittenBlocks(*device_, 0), 2U);
}

TEST_F(EmulatedDeviceTest, ACloneGoesItsOwnWay) {
  ASSERT_NO_FATAL_FAILURE(Make(true));
  ASSERT_OK(WriteBlocks(*device_, 0, 0, 2, 1));
  ASSERT_OK(device_->Flush());
  ASSERT_OK(WriteBlocks(*device_, 0, 2, 2, 2));
  ASSERT_OK(device_->OpenZone(1));
  for (int round = 0; round < 2; ++round) {  // the second clone replaces the image of the first
    std::unique_ptr<EmulatedDevice> clone;
    ASSERT_OK(EmulatedFaults::Clone(*device_, "clone", &clone));
    EXPECT_EQ(EmulatedFaults::Cached(*clone).size(), 1U);
    EXPECT_EQ(ReadBlocks(*clone, 0, 2, 2), Blocks(2, kBlock, 2).view());
    EXPECT_EQ(InfoOf(*clone, 1).condition, ZoneCondition::kExplicitlyOpen);
    EmulatedFaults::PowerLoss(*clone, 0, 1);
    EXPECT_EQ(WrittenBlocks(*clone, 0), 3U);
    ASSERT_OK(WriteBlocks(*clone, 0, 3, 1, 9));
    for (std::uint32_t zone = 2; zone < 2 + kMaxActive - 1; ++zone) {
      ASSERT_OK(WriteBlocks(*clone, zone, 0, 1));
    }
    EXPECT_ERROR(WriteBlocks(*clone, 9, 0, 1), DeviceError::kActiveLimit);
  }
  EXPECT_EQ(WrittenBlocks(*device_, 0), 4U);
  EXPECT_EQ(ReadBlocks(*device_, 0, 2, 2), Blocks(2, kBlock, 2).view());
  std::unique_ptr<EmulatedDevice> used;
  EXPECT_ERROR(EmulatedFaults::Clone(*device_, "test", &used), DeviceError::kBusy);
}

// Compares random commands with a second, minimal implementation of the zone rules.
TEST_F(EmulatedDeviceTest, AgreesWithAModelOfTheRules) {
  struct Model {
    ZoneCondition condition = ZoneCondition::kEmpty;
    std::string data;
  };
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    ASSERT_NO_FATAL_FAILURE(Make());
    std::vector<Model> model(kZones);
    std::mt19937_64 random(seed);
    std::uint64_t written = 0;
    std::uint64_t pad = 0;
    const auto active = [&model] {
      return std::count_if(model.begin(), model.end(),
                           [](const Model& zone) { return IsActive(zone.condition); });
    };
    for (int step = 0; step < 5000; ++step) {
      const auto number = static_cast<std::uint32_t>(random() % kZones);
      Model& zone = model[number];
      const bool room = IsActive(zone.condition) || active() < kMaxActive;
      const bool full = zone.condition == ZoneCondition::kFull;
      const std::uint64_t at = zone.data.size() / kBlock;
      switch (random() % 16) {
        case 0:
          EXPECT_EQ(device_->OpenZone(number).ok(), !full && room);
          if (!full && room) zone.condition = ZoneCondition::kExplicitlyOpen;
          break;
        case 1:
          EXPECT_EQ(device_->CloseZone(number).ok(), IsActive(zone.condition));
          if (IsActive(zone.condition)) zone.condition = ZoneCondition::kClosed;
          break;
        case 2:
          EXPECT_OK(device_->FinishZone(number));
          if (!full) pad += (kCapacityBlocks - at) * kBlock;
          zone.condition = ZoneCondition::kFull;
          break;
        case 3:
          EXPECT_OK(device_->ResetZone(number));
          zone = {};
          break;
        default: {
          const std::uint64_t count = 1 + random() % 3;
          const std::uint64_t first = random() % 8 == 0 ? random() % kCapacityBlocks : at;
          const bool good = !full && room && first == at && first + count <= kCapacityBlocks;
          const Blocks blocks(count, kBlock, static_cast<unsigned char>(step));
          EXPECT_EQ(device_->Write(number, first * kBlock, blocks.slice()).ok(), good);
          if (!good) break;
          zone.data += blocks.view();
          written += count * kBlock;
          if (!IsOpen(zone.condition)) zone.condition = ZoneCondition::kImplicitlyOpen;
          if (at + count == kCapacityBlocks) zone.condition = ZoneCondition::kFull;
        }
      }
      ASSERT_EQ(ConditionOf(number), zone.condition) << "seed " << seed << " step " << step;
      std::string expected = zone.data;
      expected.resize(kCapacityBlocks * kBlock);
      ASSERT_EQ(ReadBlocks(*device_, number, 0, kCapacityBlocks), expected);
    }
    EXPECT_EQ(device_->counters().bytes_written, written);
    EXPECT_EQ(device_->counters().pad_bytes, pad);
  }
}

class FileDeviceTest : public testing::Test {
 protected:
  IOStatus Open(Access access = Access::kReadWrite) {
    device_.reset();
    return OpenFile(folder_ / "device", Shape(), access, &device_);
  }

  // Overwrites bytes of the image file.
  void Poke(std::uint64_t offset, const std::string& bytes) {
    device_.reset();
    std::fstream file(folder_ / "device", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
  }

  TemporaryFolder folder_;
  std::unique_ptr<EmulatedDevice> device_;
};

TEST_F(FileDeviceTest, KeepsItsIdentityWhenItMoves) {
  ASSERT_OK(Open());
  const std::string identity = device_->geometry().identity;
  device_.reset();
  std::filesystem::rename(folder_ / "device", folder_ / "moved");
  ASSERT_OK(OpenFile(folder_ / "moved", {}, Access::kReadWrite, &device_));
  EXPECT_EQ(device_->geometry().identity, identity);
  ASSERT_OK(Open());
  EXPECT_NE(device_->geometry().identity, identity) << "another device";
}

// A store to a hole of a mapped file ends the process with SIGBUS if the file system is full.
TEST_F(FileDeviceTest, AllBlocksAreReserved) {
  ASSERT_OK(Open());
  struct stat file = {};
  ASSERT_EQ(stat((folder_ / "device").c_str(), &file), 0);
  EXPECT_GE(file.st_size, static_cast<off_t>(kZones * kCapacityBlocks * kBlock));
  EXPECT_GE(file.st_blocks * 512, file.st_size);
}

TEST_F(FileDeviceTest, EveryDamageOfTheHeaderIsNoticed) {
  const std::string ones(8, '\xff');
  struct Damage {
    std::uint64_t offset;
    std::string bytes;
  };
  // Header: magic, version, block size, zones, zone size, capacity, contradictory limits. Then the
  // state and the durable state of a zone: an unknown condition, too many blocks.
  for (const Damage& damage : std::vector<Damage>{{0, "x"},
                                                  {8, std::string("\2", 1)},
                                                  {8, std::string("\0", 1)},
                                                  {24, ones},
                                                  {32, std::string(8, '\0')},
                                                  {32, ones},
                                                  {40, ones},
                                                  {48, ones},
                                                  {56, ones},
                                                  {64, ones},
                                                  {4096, std::string("\7", 1)},
                                                  {4096 + 5, "\1"},
                                                  {4096 + 16 + 8, std::string("\xee", 1)}}) {
    std::filesystem::remove(folder_ / "device");
    ASSERT_OK(Open());
    Poke(damage.offset, damage.bytes);
    EXPECT_ERROR(Open(), DeviceError::kBadImage) << damage.offset;
    EXPECT_ERROR(Open(Access::kReadOnly), DeviceError::kBadImage) << damage.offset;
  }
}

TEST_F(FileDeviceTest, ANewerVersionIsCalledThat) {
  ASSERT_OK(Open());
  Poke(8, "\2");
  EXPECT_NE(Open().ToString().find("newer version"), std::string::npos);
}

TEST_F(FileDeviceTest, FilesOfOthersAreLeftAlone) {
  const std::string text = "not a device";
  std::ofstream(folder_ / "device") << text;
  EXPECT_ERROR(Open(), DeviceError::kBadImage);
  std::string after;
  std::getline(std::ifstream(folder_ / "device"), after);
  EXPECT_EQ(after, text);
}

TEST_F(FileDeviceTest, AFileThatWasCutShortIsNoticed) {
  ASSERT_OK(Open());
  device_.reset();
  const auto size = std::filesystem::file_size(folder_ / "device");
  std::filesystem::resize_file(folder_ / "device", size - 1);
  EXPECT_ERROR(Open(), DeviceError::kBadImage);
}

// Writes until it is killed. Each block contains its zone, position and round.
[[noreturn]] void WriteForever(const std::string& path, int ready) {
  std::unique_ptr<EmulatedDevice> device;
  if (!OpenFile(path, {}, Access::kReadWrite, &device).ok()) _exit(3);
  for (unsigned round = 0;; ++round) {
    for (std::uint64_t block = 0; block < kCapacityBlocks; block += 2) {
      for (std::uint32_t zone = 0; zone < kMaxActive; ++zone) {
        if (block == 0 && !device->ResetZone(zone).ok()) _exit(4);
        if (!WriteBlocks(*device, zone, block, 2, static_cast<unsigned char>(zone)).ok()) _exit(5);
      }
    }
    if (round == 0 && write(ready, "r", 1) != 1) _exit(6);
  }
}

TEST_F(FileDeviceTest, AKillLeavesWholeZones) {
  ASSERT_OK(Open());
  device_.reset();
  std::mt19937 random(7);
  for (int kill_number = 0; kill_number < 40; ++kill_number) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteForever(folder_ / "device", ends[1]);
    close(ends[1]);
    char byte = 0;
    ASSERT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    usleep(static_cast<useconds_t>(random() % 3000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);

    ASSERT_OK(Open());
    for (std::uint32_t zone = 0; zone < kMaxActive; ++zone) {
      const std::uint64_t written = WrittenBlocks(*device_, zone);
      EXPECT_EQ(written % 2, 0U) << "half a write";
      // An open zone can be empty if the kill interrupted its first write.
      const ZoneCondition condition = InfoOf(*device_, zone).condition;
      EXPECT_EQ(condition == ZoneCondition::kFull, written == kCapacityBlocks);
      EXPECT_EQ(condition == ZoneCondition::kEmpty, written == 0 && !IsActive(condition));
      for (std::uint64_t block = 0; block < written; block += 2) {
        ASSERT_EQ(ReadBlocks(*device_, zone, block, 2),
                  Blocks(2, kBlock, static_cast<unsigned char>(zone)).view());
      }
    }
    device_.reset();
  }
}

}  // namespace
}  // namespace zlfs
