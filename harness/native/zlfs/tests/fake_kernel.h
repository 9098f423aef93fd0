// A kernel without a zoned device that pretends to have one: the calls that the kernel back end
// makes for a FakeKernel's path (libzbd, pwrite, pread, fdatasync) are answered by an emulated
// device, with the errors of Linux. Calls for anything else go where they always went.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "device_test_util.h"
#include "faulty_device.h"
#include "zlfs/zoned/emulated_device.h"
#include "zlfs/zoned/open.h"
#include "zlfs/zoned/sysfs.h"

namespace zlfs {

class FakeKernel {
 public:
  // `shape` are the options of a device in memory, which is made anew.
  explicit FakeKernel(const std::string& shape);
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;
  ~FakeKernel();

  std::string path() const { return folder_ / "nvme5n1"; }
  Sysfs sysfs() const { return Sysfs(folder_ / "sys"); }
  void PutAttribute(const std::string& device, const std::string& attribute,
                    const std::string& text) const;
  EmulatedDevice& device() { return *device_; }
  FaultyDevice& faults() { return *faults_; }  // what the calls really go to

  // What fits into one request: little, so that writes are split often. Tells the driver, too.
  void LimitRequests(std::uint64_t kilobytes, std::uint64_t segments);
  bool OneRequest(const Slice& buffer) const;

  // How the faked system calls misbehave, and what they saw.
  bool exclusively_open = false;
  std::uint32_t block_size = 0;      // what the kernel says
  bool tells_geometry = true;        // whether libzbd learns it
  std::uint32_t missing_zones = 0;   // left out at the end of each zone report
  int interruptions = 0;             // so many calls fail with EINTR
  bool short_transfers = false;      // calls transfer half of what they could
  std::uint64_t split_requests = 0;  // writes that did not fit into one request

 private:
  TemporaryFolder folder_;
  std::uint64_t max_kilobytes_ = 0;
  std::uint64_t max_segments_ = 0;
  std::unique_ptr<EmulatedDevice> device_;
  std::unique_ptr<FaultyDevice> faults_;
};

}  // namespace zlfs
