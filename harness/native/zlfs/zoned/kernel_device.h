// A zoned block device of the Linux kernel, through libzbd and O_DIRECT.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zlfs/zoned/back_end.h"
#include "zlfs/zoned/sysfs.h"

namespace zlfs {

// What fits into one request of the device's queue. A write that is one request cannot be
// reordered, whatever the scheduler. A buffer is contiguous in virtual memory only, so each of its
// pages may be a segment of the request. The defaults are what every driver takes.
struct WriteLimits {
  std::uint64_t bytes = 128 << 10;
  std::uint64_t pages = 32;
};

class KernelDevice final : public BackEnd {
 public:
  // `name` is a kernel name (nvme0n2) or a path, also a link of /dev/disk/by-id. Reading and
  // writing opens exclusively: mounted or held devices are refused with kBusy.
  static IOStatus Open(const std::string& name, Access access, std::unique_ptr<ZonedDevice>* device,
                       const Sysfs& sysfs = Sysfs());
  ~KernelDevice() override;

 private:
  KernelDevice(int fd, Access access) : BackEnd(access), fd_(fd) {}
  // Reads geometry, limits and zones of the open device.
  IOStatus Learn(const std::filesystem::path& path, const Sysfs& sysfs);

  std::uint64_t Capacity(std::uint32_t zone) const override { return known_[zone].capacity; }
  ZoneInfo Known(std::uint32_t zone) const override { return known_[zone]; }
  IOStatus DoReport(std::uint32_t first, std::uint32_t count,
                    std::vector<ZoneInfo>* zones) override;
  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, std::uint64_t size,
                   std::span<const Slice> buffers, std::uint64_t* written) override;
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override;
  IOStatus DoFlush() override;
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override;
  // Names what an errno means, asking the zone where it says too little; gives the zone's state
  // when it could be asked. Needs no lock.
  IOStatus Explain(int error, std::uint32_t zone, ZoneInfo* info);

  const int fd_;
  WriteLimits limits_;
  // A zone changes through this handle only (O_EXCL), so it is asked when opened and after errors.
  // Guarded by the zones' locks; capacities are constant.
  std::vector<ZoneInfo> known_;
};

}  // namespace zlfs
