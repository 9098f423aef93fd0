#include "fake_kernel.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <libzbd/zbd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace zlfs {
namespace {

constexpr const char* kMemory = "fake-kernel";

struct Descriptor {
  FakeKernel* kernel;
  bool exclusive;
};

std::mutex mutex;  // guards the two maps
std::map<std::string, FakeKernel*> paths;
std::map<int, Descriptor> descriptors;

FakeKernel* Find(const char* path) {
  const std::lock_guard lock(mutex);
  const auto found = paths.find(path);
  return found == paths.end() ? nullptr : found->second;
}

FakeKernel* Find(int fd) {
  const std::lock_guard lock(mutex);
  const auto found = descriptors.find(fd);
  return found == descriptors.end() ? nullptr : found->second.kernel;
}

// Returns libzbd's own function. Uses dlopen, because this file defines the symbols itself and the
// linker can therefore drop the library.
template <typename Function>
Function* Real(const char* name) {
  static void* const library = dlopen(ZLFS_LIBZBD, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// The errno that Linux returns for a device error.
int ErrnoOf(const IOStatus& status) {
  constexpr std::pair<DeviceError::Name, int> kErrnos[] = {
      {DeviceError::kActiveLimit, EOVERFLOW}, {DeviceError::kOpenLimit, ETOOMANYREFS},
      {DeviceError::kNoSpace, ENOSPC},        {DeviceError::kBusy, EBUSY},
      {DeviceError::kMissing, ENODEV},        {DeviceError::kPermission, EROFS},
      {DeviceError::kUnaligned, EINVAL}};
  for (const auto& [name, number] : kErrnos) {
    if (ErrorOf(status) == name) return number;
  }
  return status.ok() ? 0 : EIO;
}

int Result(const IOStatus& status) {
  errno = ErrnoOf(status);
  return status.ok() ? 0 : -1;
}

bool Interrupted(FakeKernel& kernel) {
  if (kernel.interruptions == 0) return false;
  --kernel.interruptions;
  errno = EINTR;
  return true;
}

unsigned KernelCondition(ZoneCondition condition) {
  constexpr unsigned kConditions[] = {
      ZBD_ZONE_COND_EMPTY, ZBD_ZONE_COND_IMP_OPEN, ZBD_ZONE_COND_EXP_OPEN, ZBD_ZONE_COND_CLOSED,
      ZBD_ZONE_COND_FULL,  ZBD_ZONE_COND_READONLY, ZBD_ZONE_COND_OFFLINE,  ZBD_ZONE_COND_NOT_WP};
  return kConditions[static_cast<std::size_t>(condition)];
}

}  // namespace

FakeKernel::FakeKernel(const std::string& shape) {
  Image::ForgetMemory(kMemory);
  std::unique_ptr<ZonedDevice> made;
  EXPECT_OK(
      OpenDevice(std::string("mem:") + kMemory + "?" + shape, Access::kReadWrite, nullptr, &made));
  device_.reset(dynamic_cast<EmulatedDevice*>(made.release()));
  faults_ = std::make_unique<FaultyDevice>(device_.get());
  const Geometry& geometry = device_->geometry();
  block_size = geometry.block_size;
  std::ofstream(path()).put('\0');
  // With NVMe multipath, the head node in Linux has no limits.
  PutAttribute("nvme5n1", "queue/max_active_zones", "0");
  PutAttribute("nvme5n1", "queue/max_open_zones", "0");
  PutAttribute("nvme5c0n1", "queue/max_active_zones", std::to_string(geometry.max_active));
  PutAttribute("nvme5c0n1", "queue/max_open_zones", std::to_string(geometry.max_open));
  LimitRequests(32, 5);
  PutAttribute("nvme5n1", "device/serial", "fake   ");
  PutAttribute("nvme5n1", "nsid", "1");
  const std::lock_guard lock(mutex);
  paths[path()] = this;
}

FakeKernel::~FakeKernel() {
  {
    const std::lock_guard lock(mutex);
    paths.erase(path());
  }
  device_.reset();
  Image::ForgetMemory(kMemory);
}

void FakeKernel::LimitRequests(std::uint64_t kilobytes, std::uint64_t segments) {
  max_kilobytes_ = kilobytes;
  max_segments_ = segments;
  PutAttribute("nvme5n1", "queue/max_sectors_kb", std::to_string(kilobytes));
  PutAttribute("nvme5n1", "queue/max_segments", std::to_string(segments));
}

bool FakeKernel::OneRequest(const Slice& buffer) const {
  const auto first = reinterpret_cast<std::uintptr_t>(buffer.data());
  const std::uint64_t pages = (first + buffer.size() - 1) / 4096 - first / 4096 + 1;
  return buffer.size() <= max_kilobytes_ * 1024 && pages <= max_segments_;
}

void FakeKernel::PutAttribute(const std::string& device, const std::string& attribute,
                              const std::string& text) const {
  const std::filesystem::path file = folder_ / "sys" / "class" / "block" / device / attribute;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text << "\n";
}

}  // namespace zlfs

using zlfs::FakeKernel;
using zlfs::Find;

extern "C" {

int zbd_device_is_zoned(const char* path) {
  if (Find(path) != nullptr) return 1;
  return zlfs::Real<decltype(zbd_device_is_zoned)>("zbd_device_is_zoned")(path);
}

int zbd_open(const char* path, int flags, zbd_info* info) {
  FakeKernel* const kernel = Find(path);
  if (kernel == nullptr) return zlfs::Real<decltype(zbd_open)>("zbd_open")(path, flags, info);
  const bool exclusive = (flags & O_EXCL) != 0;
  if ((flags & O_DIRECT) == 0 || (exclusive && kernel->exclusively_open)) {
    errno = exclusive ? EBUSY : EINVAL;
    return -1;
  }
  const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  kernel->exclusively_open = kernel->exclusively_open || exclusive;
  const std::lock_guard lock(zlfs::mutex);
  zlfs::descriptors[fd] = {.kernel = kernel, .exclusive = exclusive};
  return fd;
}

void zbd_close(int fd) {
  FakeKernel* const kernel = Find(fd);
  if (kernel == nullptr) return zlfs::Real<decltype(zbd_close)>("zbd_close")(fd);
  const std::lock_guard lock(zlfs::mutex);
  if (zlfs::descriptors[fd].exclusive) kernel->exclusively_open = false;
  zlfs::descriptors.erase(fd);
  close(fd);
}

int zbd_get_info(int fd, zbd_info* info) {
  FakeKernel* const kernel = Find(fd);
  if (kernel == nullptr) return zlfs::Real<decltype(zbd_get_info)>("zbd_get_info")(fd, info);
  if (!kernel->reports_geometry) return -1;
  const zlfs::Geometry& geometry = kernel->faults().geometry();
  *info = {};
  info->lblock_size = kernel->block_size;
  info->zone_size = geometry.zone_size;
  info->nr_zones = geometry.zone_count;
  return 0;
}

int zbd_report_zones(int fd, off_t offset, off_t length, zbd_report_option option, zbd_zone* zones,
                     unsigned* count) {
  FakeKernel* const kernel = Find(fd);
  if (kernel == nullptr) {
    return zlfs::Real<decltype(zbd_report_zones)>("zbd_report_zones")(fd, offset, length, option,
                                                                      zones, count);
  }
  const std::uint64_t size = kernel->faults().geometry().zone_size;
  const auto first = static_cast<std::uint32_t>(static_cast<std::uint64_t>(offset) / size);
  std::vector<zlfs::ZoneInfo> report;
  if (const int result = zlfs::Result(kernel->faults().Report(first, *count, &report));
      result != 0) {
    return result;
  }
  *count -= std::min(*count, kernel->missing_zones);
  for (unsigned i = 0; i < *count; ++i) {
    const zlfs::ZoneInfo& zone = report[i];
    zones[i] = {};
    zones[i].start = (first + i) * size;
    zones[i].len = size;
    zones[i].capacity = zone.capacity;
    // NVMe leaves the write pointer of a full zone undefined; Linux reports the zone's end.
    const bool full = zone.condition == zlfs::ZoneCondition::kFull;
    zones[i].wp = zones[i].start + (full ? size : zone.write_pointer);
    zones[i].type = ZBD_ZONE_TYPE_SWR;
    zones[i].cond = zlfs::KernelCondition(zone.condition);
  }
  return 0;
}

int zbd_zones_operation(int fd, zbd_zone_op operation, off_t offset, off_t length) {
  FakeKernel* const kernel = Find(fd);
  if (kernel == nullptr) {
    return zlfs::Real<decltype(zbd_zones_operation)>("zbd_zones_operation")(fd, operation, offset,
                                                                            length);
  }
  zlfs::FaultyDevice& device = kernel->faults();
  const std::uint64_t size = device.geometry().zone_size;
  const auto zone = static_cast<std::uint32_t>(static_cast<std::uint64_t>(offset) / size);
  EXPECT_EQ(static_cast<std::uint64_t>(length), size) << "one zone at a time";
  switch (operation) {
    case ZBD_OP_OPEN:
      return zlfs::Result(device.OpenZone(zone));
    case ZBD_OP_CLOSE:
      return zlfs::Result(device.CloseZone(zone));
    case ZBD_OP_FINISH:
      return zlfs::Result(device.FinishZone(zone));
    default:
      return zlfs::Result(device.ResetZone(zone));
  }
}

ssize_t pwrite(int fd, const void* content, std::size_t bytes, off_t offset) noexcept(false) {
  FakeKernel* const kernel = Find(fd);
  if (kernel == nullptr) return syscall(SYS_pwrite64, fd, content, bytes, offset);
  if (zlfs::Interrupted(*kernel)) return -1;
  zlfs::Slice buffer(static_cast<const char*>(content), bytes);
  if (!kernel->OneRequest(buffer)) ++kernel->split_requests;
  const std::size_t block = kernel->faults().geometry().block_size;
  if (kernel->short_transfers && bytes > block) {
    buffer = zlfs::Slice(buffer.data(), bytes / block / 2 * block);
  }
  const std::uint64_t size = kernel->faults().geometry().zone_size;
  const auto at = static_cast<std::uint64_t>(offset);
  const zlfs::IOStatus status =
      kernel->faults().Write(static_cast<std::uint32_t>(at / size), at % size, buffer);
  return zlfs::Result(status) == 0 ? static_cast<ssize_t>(buffer.size()) : -1;
}

ssize_t pread(int fd, void* buffer, std::size_t size, off_t offset) noexcept(false) {
  FakeKernel* const kernel = Find(fd);
  if (kernel == nullptr) return syscall(SYS_pread64, fd, buffer, size, offset);
  if (zlfs::Interrupted(*kernel)) return -1;
  const std::size_t block = kernel->faults().geometry().block_size;
  // O_DIRECT requires this alignment.
  if ((static_cast<std::uint64_t>(offset) | size | reinterpret_cast<std::uintptr_t>(buffer)) %
          block !=
      0) {
    errno = EINVAL;
    return -1;
  }
  if (kernel->short_transfers && size > block) size = size / block / 2 * block;
  const std::uint64_t zone_size = kernel->faults().geometry().zone_size;
  const auto at = static_cast<std::uint64_t>(offset);
  const zlfs::IOStatus status = kernel->faults().Read(
      static_cast<std::uint32_t>(at / zone_size), at % zone_size, size, static_cast<char*>(buffer));
  return zlfs::Result(status) == 0 ? static_cast<ssize_t>(size) : -1;
}

int fdatasync(int fd) noexcept(false) {
  FakeKernel* const kernel = Find(fd);
  if (kernel == nullptr) return static_cast<int>(syscall(SYS_fdatasync, fd));
  return zlfs::Result(kernel->faults().Flush());
}

}  // extern "C"
