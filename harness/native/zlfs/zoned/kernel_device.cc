#include <fcntl.h>
#include <libzbd/zbd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "zlfs/zoned/open.h"

namespace zlfs {
namespace {

// libzbd indexes an array of this size with the file descriptor, and zbd_open does not check the
// index.
constexpr int kLibzbdDescriptors = 1024;
constexpr std::uint64_t kPageSize = 4096;

ZoneCondition ConditionOf(unsigned condition) {
  // Same order as ZoneCondition.
  constexpr unsigned kConditions[] = {
      ZBD_ZONE_COND_EMPTY, ZBD_ZONE_COND_IMP_OPEN, ZBD_ZONE_COND_EXP_OPEN, ZBD_ZONE_COND_CLOSED,
      ZBD_ZONE_COND_FULL,  ZBD_ZONE_COND_READONLY, ZBD_ZONE_COND_OFFLINE,  ZBD_ZONE_COND_NOT_WP};
  const auto* const found = std::ranges::find(kConditions, condition);
  if (found == std::end(kConditions)) return ZoneCondition::kOffline;
  return static_cast<ZoneCondition>(found - kConditions);
}

zbd_zone_op OperationOf(ZoneCondition to) {
  if (to == ZoneCondition::kExplicitlyOpen) return ZBD_OP_OPEN;
  if (to == ZoneCondition::kClosed) return ZBD_OP_CLOSE;
  return to == ZoneCondition::kFull ? ZBD_OP_FINISH : ZBD_OP_RESET;
}

class KernelDevice final : public ZonedDevice {
 public:
  KernelDevice(int fd, Access access) : ZonedDevice(access), fd_(fd) {}
  ~KernelDevice() override { zbd_close(fd_); }

  // Reads the geometry, limits and zone states of the open device.
  IOStatus Learn(const std::filesystem::path& path, const Sysfs& sysfs) {
    zbd_info info = {};
    if (zbd_get_info(fd_, &info) != 0) {
      return MakeError(DeviceError::kIo,
                       path.string() + ": the kernel does not report its geometry");
    }
    if (info.lblock_size != 512 && info.lblock_size != 4096) {
      return MakeError(DeviceError::kBadSpec,
                       path.string() + ": blocks of neither 512 nor 4096 bytes");
    }
    const std::string name = path.filename();
    SetGeometry(
        {.block_size = info.lblock_size,
         .read_alignment = info.lblock_size,
         .zone_size = info.zone_size,
         .zone_count = info.nr_zones,
         .max_active = static_cast<std::uint32_t>(sysfs.QueueLimit(name, "max_active_zones")),
         .max_open = static_cast<std::uint32_t>(sysfs.QueueLimit(name, "max_open_zones")),
         .kind = DeviceKind::kKernel,
         .identity = sysfs.Identity(name),
         .path = path});
    const std::uint64_t kilobytes = sysfs.Number(name, "queue/max_sectors_kb");
    const std::uint64_t segments = sysfs.Number(name, "queue/max_segments");
    if (kilobytes * 1024 >= kPageSize) most_bytes_ = kilobytes * 1024 / kPageSize * kPageSize;
    if (segments > 0) most_pages_ = segments;
    return Report(0, info.nr_zones, &known_);
  }

 private:
  std::uint64_t Capacity(std::uint32_t zone) const override { return known_[zone].capacity; }
  ZoneInfo Known(std::uint32_t zone) const override { return known_[zone]; }

  IOStatus DoReport(std::uint32_t first, std::uint32_t count,
                    std::vector<ZoneInfo>* zones) override {
    std::vector<zbd_zone> reported(count);
    unsigned got = count;
    const auto start = static_cast<off_t>(first * geometry_.zone_size);
    const auto length = static_cast<off_t>(count * geometry_.zone_size);
    const int result = zbd_report_zones(fd_, start, length, ZBD_RO_ALL, reported.data(), &got);
    if (result != 0) {
      // Depending on its version, libzbd returns -1 or a negative errno.
      const int number = result < -1 ? -result : errno;
      return MakeSystemError(number, geometry_.path + ": zone report");
    }
    if (got != count) return Fail(DeviceError::kIo, first + got, "missing in the zone report");
    for (const zbd_zone& zone : reported) {
      ZoneInfo info = {.capacity = zone.capacity, .condition = ConditionOf(zone.cond)};
      // In other conditions, the kernel's write pointer is undefined or beyond the capacity.
      if (IsActive(info.condition)) info.write_pointer = zone.wp - zone.start;
      if (info.condition == ZoneCondition::kFull) info.write_pointer = zone.capacity;
      zones->push_back(info);
    }
    return IOStatus::OK();
  }

  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                   std::uint64_t* written) override {
    ZoneInfo& known = known_[zone];
    const std::uint64_t start = zone * geometry_.zone_size;
    while (*written < buffer.size()) {
      const char* const from = buffer.data() + *written;
      const std::uint64_t in_page = reinterpret_cast<std::uintptr_t>(from) % kPageSize;
      const std::uint64_t request =
          std::min({buffer.size() - *written, most_bytes_, most_pages_ * kPageSize - in_page});
      const std::uint64_t end = offset + *written;
      const ssize_t done = pwrite(fd_, from, request, static_cast<off_t>(start + end));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) {
        IOStatus status = Explain(done < 0 ? errno : EIO, zone, &known);
        // The failed command may have written some blocks; the zone report shows how many.
        const bool landed = IsActive(known.condition) && known.write_pointer > end;
        if (landed) *written = known.write_pointer - offset;
        return status;
      }
      *written += static_cast<std::uint64_t>(done);
      known.write_pointer = offset + *written;
      known.condition = known.write_pointer == known.capacity ? ZoneCondition::kFull
                                                              : ZoneCondition::kImplicitlyOpen;
    }
    return IOStatus::OK();
  }

  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override {
    const std::uint64_t start = zone * geometry_.zone_size + offset;
    for (std::size_t done = 0; done < size;) {
      const ssize_t got = pread(fd_, buffer + done, size - done, static_cast<off_t>(start + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        ZoneInfo info;
        return Explain(got < 0 ? errno : EIO, zone, &info);
      }
      done += static_cast<std::size_t>(got);
    }
    return IOStatus::OK();
  }

  IOStatus DoFlush() override {
    if (fdatasync(fd_) == 0) return IOStatus::OK();
    return MakeSystemError(errno, geometry_.path + ": a flush");
  }

  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    ZoneInfo& known = known_[zone];
    const auto start = static_cast<off_t>(zone * geometry_.zone_size);
    const auto length = static_cast<off_t>(geometry_.zone_size);
    if (zbd_zones_operation(fd_, OperationOf(to), start, length) != 0) {
      IOStatus status = Explain(errno, zone, &known);
      // The kernel returns EIO for a transition that the zone's state does not allow.
      IOStatus allowed = CheckChange(zone, known.condition, to);
      return allowed.ok() ? status : allowed;
    }
    known.condition = to;
    if (to == ZoneCondition::kFull) known.write_pointer = known.capacity;
    if (to == ZoneCondition::kEmpty) known.write_pointer = 0;
    return IOStatus::OK();
  }

  // Creates the status for an errno value. Reports a read-only or offline zone instead of a generic
  // error. Updates `info` if the zone report succeeds. Needs no lock.
  IOStatus Explain(int error, std::uint32_t zone, ZoneInfo* info) {
    std::vector<ZoneInfo> zones;
    if (Report(zone, 1, &zones).ok()) {
      // Do not store the capacity: it is constant, and other threads read it without a lock.
      info->condition = zones[0].condition;
      info->write_pointer = zones[0].write_pointer;
    }
    RETURN_IF_ERROR(CheckChange(zone, info->condition, info->condition));
    return MakeSystemError(error, geometry_.path + ", zone " + std::to_string(zone));
  }

  const int fd_;
  // The limits of one request of the device's queue. A write that fits into one request cannot be
  // reordered by any scheduler. A buffer is contiguous only in virtual memory, so each of its pages
  // may be a separate segment. All drivers support the defaults.
  std::uint64_t most_bytes_ = 128 << 10;
  std::uint64_t most_pages_ = 32;
  // Zone states. O_EXCL guarantees that they change only through this handle, so they are read only
  // on open and after errors. Guarded by the zones' locks; capacities are constant.
  std::vector<ZoneInfo> known_;
};

}  // namespace

IOStatus OpenKernelDevice(const std::string& name, Access access,
                          std::unique_ptr<ZonedDevice>* device, const Sysfs& sysfs) {
  std::error_code error;
  const auto path = std::filesystem::canonical(std::filesystem::path("/dev") / name, error);
  if (error) return MakeSystemError(error.value(), name);
  if (zbd_device_is_zoned(path.c_str()) != 1) {
    return MakeError(DeviceError::kNotZoned, path.string() + ": not a zoned block device");
  }
  if (const int next = open("/dev/null", O_RDONLY | O_CLOEXEC); next >= 0) {
    close(next);
    if (next >= kLibzbdDescriptors) {
      return MakeError(DeviceError::kIo, path.string() + ": too many open files for libzbd");
    }
  }
  const int mode = access == Access::kReadWrite ? O_RDWR : O_RDONLY;
  const int alone = access == Access::kReadOnly ? 0 : O_EXCL;
  const int fd = zbd_open(path.c_str(), mode | alone | O_DIRECT | O_CLOEXEC, nullptr);
  if (fd < 0) return MakeSystemError(errno, path.native());
  auto opened = std::make_unique<KernelDevice>(fd, access);
  RETURN_IF_ERROR(opened->Learn(path, sysfs));
  *device = std::move(opened);
  return IOStatus::OK();
}

}  // namespace zlfs
