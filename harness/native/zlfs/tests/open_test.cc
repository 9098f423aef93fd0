#include "zlfs/zoned/open.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

#include "device_test_util.h"
#include "zlfs/zoned/image.h"

namespace zlfs {
namespace {

TEST(Errors, TheNameIsTheFirstWord) {
  for (const DeviceError::Name error :
       {DeviceError::kBadSpec, DeviceError::kBusy, DeviceError::kNoSpace, DeviceError::kIo}) {
    const IOStatus status = MakeError(error, "detail: more");
    EXPECT_ERROR(status, error);
    EXPECT_NE(status.ToString().find(": detail: more"), std::string::npos);
  }
  EXPECT_TRUE(MakeError(DeviceError::kNoSpace, "").IsNoSpace());
  EXPECT_TRUE(MakeError(DeviceError::kBusy, "").IsBusy());
  EXPECT_TRUE(MakeError(DeviceError::kBadSpec, "").IsInvalidArgument());
  EXPECT_TRUE(MakeError(DeviceError::kNotZoned, "").IsInvalidArgument());
  EXPECT_TRUE(MakeError(DeviceError::kZoneFull, "").IsIOError());
}

TEST(Errors, ErrnosHaveNames) {
  EXPECT_ERROR(MakeSystemError(EOVERFLOW, "x"), DeviceError::kActiveLimit);
  EXPECT_ERROR(MakeSystemError(EWOULDBLOCK, "x"), DeviceError::kBusy);
  const IOStatus status = MakeSystemError(EIO, "nvme0n2");
  EXPECT_ERROR(status, DeviceError::kIo);
  EXPECT_NE(status.ToString().find("nvme0n2: Input/output error"), std::string::npos);
}

IOStatus OpenText(const std::string& text, std::unique_ptr<ZonedDevice>* device,
                  Access access = Access::kReadWrite) {
  return OpenDevice(text, access, nullptr, device);
}

TEST(OpenDevice, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"", "nvme0n2", "zlfs://", "zenfs://dev:x", "uuid:x", "dev:", "dev:?a=b", "mem:x?",
        "mem:x?a", "mem:x?=1", "mem:x?a=1&", "mem:x?a=1&a=2", "mem?a:b=1"}) {
    std::unique_ptr<ZonedDevice> device;
    EXPECT_ERROR(OpenText(text, &device), DeviceError::kBadSpec) << text;
  }
}

TEST(OpenDevice, SplitsSchemeNameAndOptions) {
  const TemporaryFolder folder;
  const std::string file = "zlfs://file:" + (folder / "a:b").string();
  OptionMap options;
  std::unique_ptr<ZonedDevice> device;
  ASSERT_OK(OpenDevice(file + "?zones=4&zone_size=64K&aux=/x/y&empty=", Access::kReadWrite,
                       &options, &device));
  EXPECT_EQ(options, OptionMap({{"aux", "/x/y"}, {"empty", ""}}));
  EXPECT_TRUE(std::filesystem::exists(folder / "a:b"));
  device.reset();
  ASSERT_OK(OpenDevice(file, Access::kReadWrite, &options, &device));
  EXPECT_TRUE(options.empty());
  device.reset();
  EXPECT_ERROR(OpenText(file + "?aux=/x", &device), "unknown-option");
  EXPECT_EQ(device, nullptr);
}

TEST(OpenDevice, TakesItsOwnOptionsAndLeavesTheRest) {
  OptionMap left;
  std::unique_ptr<ZonedDevice> device;
  ASSERT_OK(
      OpenDevice("mem:options?zones=3&zone_size=2M&zone_capacity=1536K&block_size=512&max_active=2"
                 "&max_open=1&cache=volatile&aux=/x&finish=10",
                 Access::kReadWrite, &left, &device));
  EXPECT_EQ(left, OptionMap({{"aux", "/x"}, {"finish", "10"}}));
  const Geometry& geometry = device->geometry();
  EXPECT_EQ(geometry.zone_count, 3U);
  EXPECT_EQ(geometry.zone_size, 2U << 20);
  EXPECT_EQ(geometry.block_size, 512U);
  EXPECT_EQ(geometry.read_alignment, 1U);
  EXPECT_EQ(geometry.max_active, 2U);
  EXPECT_EQ(geometry.max_open, 1U);
  EXPECT_EQ(geometry.kind, DeviceKind::kMemory);
  EXPECT_EQ(InfoOf(*device, 0).capacity, 1536U << 10);
  Image::ForgetMemory("options");
}

TEST(OpenDevice, RefusesShapesThatCannotBe) {
  for (const char* options :
       {"zones=0&zone_size=1M", "zones=4&zone_size=0", "zones=4&zone_size=1000",
        "zones=4&zone_size=1M&block_size=1024", "zones=4&zone_size=1M&zone_capacity=2M",
        "zones=4&zone_size=1M&zone_capacity=0", "zones=4&zone_size=1M&zone_capacity=1000",
        "zones=4&zone_size=1M&max_active=2&max_open=3",
        "zones=4&zone_size=1M&max_active=2&max_open=0", "zones=4294967296&zone_size=1048576G",
        "zones=x&zone_size=1M", "zones=&zone_size=1M", "zones=-1&zone_size=1M",
        "zones=4&zone_size=1MB", "zones=4&zone_size=1M&cache=on", "zones=4&zone_size=17179869185G",
        "zones=4&zone_size=1048576G"}) {
    std::unique_ptr<ZonedDevice> device;
    EXPECT_ERROR(OpenText(std::string("mem:bad?") + options, &device), DeviceError::kBadSpec)
        << options;
    EXPECT_EQ(device, nullptr);
  }
}

TEST(OpenDevice, AnExistingDeviceHasToAgree) {
  std::unique_ptr<ZonedDevice> device;
  EXPECT_ERROR(OpenText("mem:agree", &device), DeviceError::kMissing);
  ASSERT_OK(OpenText("mem:agree?zones=4&zone_size=1M&max_active=3", &device));
  device.reset();
  ASSERT_OK(OpenText("mem:agree", &device));
  EXPECT_EQ(device->geometry().zone_count, 4U);
  device.reset();
  for (const char* option : {"zones=5", "zone_size=2M", "zone_capacity=512K", "block_size=512",
                             "max_active=0", "max_open=2", "cache=volatile"}) {
    const IOStatus status = OpenText(std::string("mem:agree?") + option, &device);
    EXPECT_ERROR(status, DeviceError::kBadSpec) << option;
    const std::string name(option, std::string_view(option).find('='));
    EXPECT_NE(status.ToString().find(name), std::string::npos) << status.ToString();
  }
  Image::ForgetMemory("agree");
}

TEST(OpenDevice, KernelDevicesAreZonedBlockDevices) {
  const TemporaryFolder folder;
  std::unique_ptr<ZonedDevice> device;
  EXPECT_ERROR(OpenText("dev:no-such-device", &device), DeviceError::kMissing);
  EXPECT_ERROR(OpenText("dev:/dev/null", &device), DeviceError::kNotZoned);
  EXPECT_ERROR(OpenText("dev:" + (folder / "").string(), &device), DeviceError::kNotZoned);
}

TEST(OpenDevice, FilesAreMadeOnlyWithAShape) {
  const TemporaryFolder folder;
  const std::string spec = "file:" + (folder / "device").string();
  std::unique_ptr<ZonedDevice> device;
  EXPECT_ERROR(OpenText(spec, &device), DeviceError::kMissing);
  EXPECT_FALSE(std::filesystem::exists(folder / "device"));
  EXPECT_ERROR(OpenText(spec + "?zones=4&zone_size=1M", &device, Access::kReadOnly),
               DeviceError::kMissing);
  EXPECT_ERROR(
      OpenText("file:" + (folder / "no/device").string() + "?zones=4&zone_size=1M", &device),
      DeviceError::kMissing);
  const std::uint64_t free = std::filesystem::space(folder / "").available >> 20;
  EXPECT_ERROR(OpenText(spec + "?zone_size=1M&zones=" + std::to_string(free + 1024), &device),
               DeviceError::kNoSpace);
}

}  // namespace
}  // namespace zlfs
