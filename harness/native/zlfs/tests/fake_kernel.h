// A fake kernel with a zoned device. It redirects the kernel back end's calls for a FakeKernel's
// path (libzbd, pwrite, pread, fdatasync) to an emulated device and returns Linux errors. All other
// calls go to the real functions.

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
  // Makes a new device in memory with the options in `shape`.
  explicit FakeKernel(const std::string& shape);
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;
  ~FakeKernel();

  std::string path() const { return folder_ / "nvme5n1"; }
  Sysfs sysfs() const { return Sysfs(folder_ / "sys"); }
  void PutAttribute(const std::string& device, const std::string& attribute,
                    const std::string& text) const;
  EmulatedDevice& device() { return *device_; }
  FaultyDevice& faults() { return *faults_; }  // the device that receives the calls

  // Sets a low request size limit, so that writes are split often. Publishes it in sysfs.
  void LimitRequests(std::uint64_t kilobytes, std::uint64_t segments);
  bool OneRequest(const Slice& buffer) const;

  // Faults and observations of the fake system calls.
  bool exclusively_open = false;
  std::uint32_t block_size = 0;      // as the kernel reports it
  bool reports_geometry = true;      // whether libzbd reports the geometry
  std::uint32_t missing_zones = 0;   // omitted at the end of each zone report
  int interruptions = 0;             // number of calls that fail with EINTR
  bool short_transfers = false;      // calls transfer half of the requested bytes
  std::uint64_t split_requests = 0;  // writes that did not fit into one request

 private:
  TemporaryFolder folder_;
  std::uint64_t max_kilobytes_ = 0;
  std::uint64_t max_segments_ = 0;
  std::unique_ptr<EmulatedDevice> device_;
  std::unique_ptr<FaultyDevice> faults_;
};

}  // namespace zlfs
