#include "zlfs/zoned/sysfs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "device_test_util.h"

namespace zlfs {
namespace {

// Synthetic sysfs trees with the same layout as in the tests of harness/observe/sysfs.py.
class SysfsTest : public testing::Test {
 protected:
  void Put(const std::string& device, const std::string& attribute, const std::string& text) {
    const std::filesystem::path path = folder_ / "class" / "block" / device / attribute;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  TemporaryFolder folder_;
  Sysfs sysfs_{folder_ / ""};
};

TEST_F(SysfsTest, TextIsStripped) {
  Put("nvme0n1", "device/serial", "  SN 1 \n");
  EXPECT_EQ(sysfs_.Text("nvme0n1", "device/serial"), "SN 1");
  EXPECT_EQ(sysfs_.Text("nvme0n1", "nothing"), "");
}

TEST_F(SysfsTest, NumbersAreWholeNumbers) {
  Put("nvme0n1", "nsid", "7\n");
  Put("nvme0n1", "odd", "7 of 9\n");
  Put("nvme0n1", "negative", "-1\n");
  EXPECT_EQ(sysfs_.Number("nvme0n1", "nsid"), 7U);
  EXPECT_EQ(sysfs_.Number("nvme0n1", "odd"), 0U);
  EXPECT_EQ(sysfs_.Number("nvme0n1", "negative"), 0U);
  EXPECT_EQ(sysfs_.Number("nvme0n1", "nothing"), 0U);
}

TEST_F(SysfsTest, LimitsOfAMultipathHeadAreThoseOfItsPaths) {
  Put("nvme2n1", "queue/max_active_zones", "0\n");
  Put("nvme2c0n1", "queue/max_active_zones", "14\n");
  Put("nvme2c3n1", "queue/max_active_zones", "14\n");
  Put("nvme2c0n2", "queue/max_active_zones", "99\n");   // another namespace
  Put("nvme22c0n1", "queue/max_active_zones", "99\n");  // another subsystem
  EXPECT_EQ(sysfs_.QueueLimit("nvme2n1", "max_active_zones"), 14U);
}

TEST_F(SysfsTest, LimitsOfASingleDeviceAreItsOwn) {
  Put("nullb0", "queue/max_open_zones", "6\n");
  Put("nvme0n1", "queue/max_open_zones", "0\n");
  EXPECT_EQ(sysfs_.QueueLimit("nullb0", "max_open_zones"), 6U);
  EXPECT_EQ(sysfs_.QueueLimit("nvme0n1", "max_open_zones"), 0U);
  EXPECT_EQ(sysfs_.QueueLimit("gone", "max_open_zones"), 0U);
}

TEST_F(SysfsTest, TheFirstIdentifierThatIsSetNamesTheDevice) {
  const std::string device = "nvme0n1";
  EXPECT_EQ(sysfs_.Identity(device), "nvme0n1:0");
  Put(device, "dm/uuid", "LVM-x\n");
  EXPECT_EQ(sysfs_.Identity(device), "LVM-x:0");
  Put(device, "serial", "virtio\n");
  EXPECT_EQ(sysfs_.Identity(device), "virtio:0");
  Put(device, "device/serial", "S5Z \n");
  Put(device, "nsid", "2\n");
  EXPECT_EQ(sysfs_.Identity(device), "S5Z:2");
  Put(device, "uuid", "00000000-0000-0000-0000-000000000000\n");
  EXPECT_EQ(sysfs_.Identity(device), "S5Z:2");
  Put(device, "uuid", "12345678-0000-0000-0000-00000000000A\n");
  EXPECT_EQ(sysfs_.Identity(device), "uuid.12345678-0000-0000-0000-00000000000a");
  Put(device, "nguid", "00000000-0000-0000-0000-0000000000FF\n");
  EXPECT_EQ(sysfs_.Identity(device), "nguid.00000000-0000-0000-0000-0000000000ff");
  Put(device, "eui", "00 00 00 00 00 00 00 00\n");
  EXPECT_EQ(sysfs_.Identity(device), "nguid.00000000-0000-0000-0000-0000000000ff");
  Put(device, "eui", "52 54 00 Ab-cd ef 00 01\n");
  EXPECT_EQ(sysfs_.Identity(device), "eui.525400abcdef0001");
}

}  // namespace
}  // namespace zlfs
