// A zoned block device of the Linux kernel, through libzbd and O_DIRECT.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "zlfs/zoned/device.h"
#include "zlfs/zoned/errors.h"
#include "zlfs/zoned/open.h"
#include "zlfs/zoned/sysfs.h"

namespace zlfs {

// What fits into one request of the device's queue. A write that is one request cannot be
// reordered, whatever the scheduler. A buffer is contiguous in virtual memory only, so each of its
// pages may be a segment of the request. The defaults are what every driver takes.
struct WriteLimits {
  std::uint64_t bytes = 128 << 10;
  std::uint64_t pages = 32;
};

class KernelDevice final : public ZonedDevice {
 public:
  // `name` is a kernel name (nvme0n2) or a path, also a link of /dev/disk/by-id. Reading and
  // writing opens exclusively: mounted or held devices are refused with kBusy.
  static IOStatus Open(const std::string& name, Access access, std::unique_ptr<ZonedDevice>* device,
                       const Sysfs& sysfs = Sysfs());
  ~KernelDevice() override;

  IOStatus Report(std::uint32_t first, std::uint32_t count, std::vector<ZoneInfo>* zones) override;
  using ZonedDevice::Write;
  IOStatus Write(std::uint32_t zone, std::uint64_t offset, std::span<const Slice> buffers) override;
  IOStatus Read(std::uint64_t offset, std::size_t size, char* buffer) override;
  IOStatus Flush() override;
  IOStatus OpenZone(std::uint32_t zone) override;
  IOStatus CloseZone(std::uint32_t zone) override;
  IOStatus FinishZone(std::uint32_t zone) override;
  IOStatus ResetZone(std::uint32_t zone) override;

 private:
  // What this handle knows of a zone without asking. A zone's write pointer moves through this
  // handle only (O_EXCL), so it is asked when opened and after errors.
  struct Zone {
    std::mutex mutex;  // one outstanding command per zone; guards write_pointer
    std::uint64_t capacity = 0;
    std::uint64_t write_pointer = 0;
    bool sequential = true;
  };

  KernelDevice(int fd, Access access) : ZonedDevice(access), fd_(fd) {}

  std::uint64_t Capacity(std::uint32_t zone) const override { return zones_[zone].capacity; }
  IOStatus Learn(const std::string& name, const Sysfs& sysfs);
  IOStatus Manage(int operation, std::uint32_t zone, std::atomic<std::uint64_t>* counter);
  // Names what an errno means, asking the zone where it says too little; gives the zone's state
  // when it could be asked. Needs no lock.
  IOStatus Explain(int error, std::uint32_t zone, const char* command, ZoneInfo* info);

  const int fd_;
  WriteLimits limits_;
  std::unique_ptr<Zone[]> zones_;
};

}  // namespace zlfs
