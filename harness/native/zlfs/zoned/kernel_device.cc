#include "zlfs/zoned/kernel_device.h"

#include <fcntl.h>
#include <libzbd/zbd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

namespace zlfs {
namespace {

// libzbd keeps its per-device information in an array of this many file descriptors and does not
// check the index when it opens.
constexpr int kLibzbdDescriptors = 1024;
constexpr std::uint64_t kPageSize = 4096;
constexpr std::size_t kMaxVectors = 1024;  // IOV_MAX of Linux

ZoneCondition ConditionOf(unsigned condition) {
  constexpr std::pair<unsigned, ZoneCondition> kConditions[] = {
      {ZBD_ZONE_COND_NOT_WP, ZoneCondition::kNoWritePointer},
      {ZBD_ZONE_COND_EMPTY, ZoneCondition::kEmpty},
      {ZBD_ZONE_COND_IMP_OPEN, ZoneCondition::kImplicitlyOpen},
      {ZBD_ZONE_COND_EXP_OPEN, ZoneCondition::kExplicitlyOpen},
      {ZBD_ZONE_COND_CLOSED, ZoneCondition::kClosed},
      {ZBD_ZONE_COND_FULL, ZoneCondition::kFull},
      {ZBD_ZONE_COND_READONLY, ZoneCondition::kReadOnly}};
  for (const auto& [theirs, ours] : kConditions) {
    if (theirs == condition) return ours;
  }
  return ZoneCondition::kOffline;
}

ZoneInfo InfoOf(const zbd_zone& zone) {
  const ZoneCondition condition = ConditionOf(zone.cond);
  // The kernel puts the write pointer of a full zone at the zone's end or leaves it undefined, and
  // that of a read-only or offline zone is undefined.
  std::uint64_t write_pointer = zone.capacity;
  if (condition == ZoneCondition::kEmpty || IsActive(condition)) {
    write_pointer = zone.wp - zone.start;
  } else if (condition != ZoneCondition::kFull) {
    write_pointer = 0;
  }
  return {.start = zone.start,
          .capacity = zone.capacity,
          .write_pointer = write_pointer,
          .condition = condition,
          .type = zbd_zone_seq(&zone) ? ZoneType::kSequential : ZoneType::kConventional};
}

// One write command: as much of the buffers from `done` on as fits.
void NextCommand(std::span<const Slice> buffers, std::uint64_t done, const WriteLimits& limits,
                 std::vector<iovec>* vectors) {
  vectors->clear();
  std::uint64_t bytes = limits.bytes;
  std::uint64_t pages = limits.pages;
  for (const Slice& buffer : buffers) {
    if (done >= buffer.size()) {
      done -= buffer.size();
      continue;
    }
    if (bytes == 0 || pages == 0 || vectors->size() == kMaxVectors) break;
    const char* const from = buffer.data() + done;
    const std::uint64_t in_page = reinterpret_cast<std::uintptr_t>(from) % kPageSize;
    const std::uint64_t part = std::min({buffer.size() - done, bytes, pages * kPageSize - in_page});
    // pwritev does not write to its buffers, but its type does not say so.
    vectors->push_back({const_cast<char*>(from), part});
    bytes -= part;
    pages -= (in_page + part + kPageSize - 1) / kPageSize;
    done = 0;
  }
}

}  // namespace

IOStatus KernelDevice::Open(const std::string& name, Access access,
                            std::unique_ptr<ZonedDevice>* device, const Sysfs& sysfs) {
  std::error_code error;
  const std::filesystem::path given = name.starts_with('/') ? name : "/dev/" + name;
  const std::filesystem::path path = std::filesystem::canonical(given, error);
  if (error) return MakeSystemError(error.value(), given.native());
  if (zbd_device_is_zoned(path.c_str()) != 1) {
    return MakeError(DeviceError::kNotZoned, path.string() + ": not a zoned block device");
  }
  if (const int next = open("/dev/null", O_RDONLY | O_CLOEXEC); next >= 0) {
    close(next);
    if (next >= kLibzbdDescriptors) {
      return MakeError(DeviceError::kIo, path.string() + ": too many open files for libzbd");
    }
  }
  const bool writes = access == Access::kReadWrite;
  const int flags = (writes ? O_RDWR | O_EXCL : O_RDONLY) | O_DIRECT | O_CLOEXEC;
  const int fd = zbd_open(path.c_str(), flags, nullptr);
  if (fd < 0) return MakeSystemError(errno, path.native());
  std::unique_ptr<KernelDevice> opened(new KernelDevice(fd, access));
  opened->geometry_.path = path;
  IOStatus status = opened->Learn(path.filename(), sysfs);
  if (status.ok()) *device = std::move(opened);
  return status;
}

KernelDevice::~KernelDevice() { zbd_close(fd_); }

// Reads geometry, limits and zones of the open device.
IOStatus KernelDevice::Learn(const std::string& name, const Sysfs& sysfs) {
  zbd_info info = {};
  if (zbd_get_info(fd_, &info) != 0) {
    return MakeError(DeviceError::kIo, name + ": the kernel does not tell its geometry");
  }
  if (info.lblock_size != 512 && info.lblock_size != 4096) {
    return MakeError(DeviceError::kBadSpec,
                     name + ": logical blocks of neither 512 nor 4096 bytes");
  }
  geometry_.block_size = info.lblock_size;
  geometry_.read_alignment = info.lblock_size;
  geometry_.zone_size = info.zone_size;
  geometry_.zone_count = info.nr_zones;
  geometry_.max_active = static_cast<std::uint32_t>(sysfs.QueueLimit(name, "max_active_zones"));
  geometry_.max_open = static_cast<std::uint32_t>(sysfs.QueueLimit(name, "max_open_zones"));
  geometry_.kind = DeviceKind::kKernel;
  geometry_.identity = sysfs.Identity(name);

  const std::uint64_t kilobytes = sysfs.Number(name, "queue/max_sectors_kb");
  const std::uint64_t segments = sysfs.Number(name, "queue/max_segments");
  if (kilobytes * 1024 >= kPageSize) limits_.bytes = kilobytes * 1024 / kPageSize * kPageSize;
  if (segments > 0) limits_.pages = segments;

  std::vector<ZoneInfo> zones;
  IOStatus status = Report(0, geometry_.zone_count, &zones);
  if (!status.ok()) return status;
  zones_ = std::make_unique<Zone[]>(geometry_.zone_count);
  for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
    zones_[zone].capacity = zones[zone].capacity;
    zones_[zone].write_pointer = zones[zone].write_pointer;
    zones_[zone].sequential = zones[zone].type == ZoneType::kSequential;
  }
  return status;
}

IOStatus KernelDevice::Report(std::uint32_t first, std::uint32_t count,
                              std::vector<ZoneInfo>* zones) {
  if (IOStatus status = CheckRange(first, count); !status.ok()) return status;
  zones->clear();
  if (count == 0) return IOStatus::OK();
  std::vector<zbd_zone> reported(count);
  unsigned got = count;
  const auto start = static_cast<off_t>(first * geometry_.zone_size);
  const auto length = static_cast<off_t>(count * geometry_.zone_size);
  const int result = zbd_report_zones(fd_, start, length, ZBD_RO_ALL, reported.data(), &got);
  if (result != 0) {
    const int number = result < -1 ? -result : errno;  // -1 or a negative errno, by version
    return MakeSystemError(number, geometry_.path + ": zone report");
  }
  if (got != count) return Fail(DeviceError::kIo, first + got, "missing in the zone report");
  zones->reserve(count);
  for (const zbd_zone& zone : reported) zones->push_back(InfoOf(zone));
  return IOStatus::OK();
}

IOStatus KernelDevice::Explain(int error, std::uint32_t zone, const char* command, ZoneInfo* info) {
  std::vector<ZoneInfo> zones;
  const bool known = Report(zone, 1, &zones).ok();
  if (known) *info = zones[0];
  const std::string what = geometry_.path + ", zone " + std::to_string(zone) + ": " + command;
  IOStatus status = MakeSystemError(error, what);
  if (ErrorOf(status) != DeviceError::kIo || !known) return status;
  if (info->condition == ZoneCondition::kOffline) {
    return Fail(DeviceError::kZoneOffline, zone, command);
  }
  if (info->condition == ZoneCondition::kReadOnly) {
    return Fail(DeviceError::kZoneReadOnly, zone, command);
  }
  return status;
}

IOStatus KernelDevice::Write(std::uint32_t zone, std::uint64_t offset,
                             std::span<const Slice> buffers) {
  if (IOStatus status = CheckChange(zone); !status.ok()) return status;
  std::uint64_t size = 0;
  if (IOStatus status = CheckBuffers(zone, offset, buffers, &size); !status.ok()) return status;
  Zone& state = zones_[zone];
  if (!state.sequential) return Fail(DeviceError::kWrongState, zone, "conventional");
  const std::lock_guard lock(state.mutex);
  IOStatus placed = CheckPlace(zone, offset, size, state.write_pointer);
  if (!placed.ok()) return placed;
  const std::uint64_t start = zone * geometry_.zone_size + offset;
  std::vector<iovec> vectors;
  for (std::uint64_t done = 0; done < size;) {
    NextCommand(buffers, done, limits_, &vectors);
    const ssize_t written = pwritev(fd_, vectors.data(), static_cast<int>(vectors.size()),
                                    static_cast<off_t>(start + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      ZoneInfo info = {.write_pointer = state.write_pointer};
      IOStatus status = Explain(written < 0 ? errno : EIO, zone, "a write", &info);
      // Some of the failed command may have landed; the device knows.
      if (IsActive(info.condition) && info.write_pointer > state.write_pointer) {
        counters_.bytes_written += info.write_pointer - state.write_pointer;
      }
      state.write_pointer = info.write_pointer;
      return status;
    }
    done += static_cast<std::uint64_t>(written);
    state.write_pointer += static_cast<std::uint64_t>(written);
    counters_.bytes_written += static_cast<std::uint64_t>(written);
  }
  ++counters_.writes;
  return IOStatus::OK();
}

IOStatus KernelDevice::Read(std::uint64_t offset, std::size_t size, char* buffer) {
  if (IOStatus status = CheckRead(offset, size, buffer); !status.ok()) return status;
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = pread(fd_, buffer + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const auto zone = static_cast<std::uint32_t>(offset / geometry_.zone_size);
      ZoneInfo info;
      return Explain(got < 0 ? errno : EIO, zone, "a read", &info);
    }
    done += static_cast<std::size_t>(got);
  }
  ++counters_.reads;
  counters_.bytes_read += size;
  return IOStatus::OK();
}

IOStatus KernelDevice::Flush() {
  if (IOStatus status = CheckAccess(); !status.ok()) return status;
  if (fdatasync(fd_) != 0) return MakeSystemError(errno, geometry_.path + ": a flush");
  ++counters_.flushes;
  return IOStatus::OK();
}

IOStatus KernelDevice::OpenZone(std::uint32_t zone) {
  return Manage(ZBD_OP_OPEN, zone, &counters_.opens);
}

IOStatus KernelDevice::CloseZone(std::uint32_t zone) {
  return Manage(ZBD_OP_CLOSE, zone, &counters_.closes);
}

IOStatus KernelDevice::FinishZone(std::uint32_t zone) {
  return Manage(ZBD_OP_FINISH, zone, &counters_.finishes);
}

IOStatus KernelDevice::ResetZone(std::uint32_t zone) {
  return Manage(ZBD_OP_RESET, zone, &counters_.resets);
}

IOStatus KernelDevice::Manage(int operation, std::uint32_t zone,
                              std::atomic<std::uint64_t>* counter) {
  if (IOStatus status = CheckChange(zone); !status.ok()) return status;
  Zone& state = zones_[zone];
  if (!state.sequential) return Fail(DeviceError::kWrongState, zone, "conventional");
  const std::lock_guard lock(state.mutex);
  const auto start = static_cast<off_t>(zone * geometry_.zone_size);
  const auto length = static_cast<off_t>(geometry_.zone_size);
  if (zbd_zones_operation(fd_, static_cast<zbd_zone_op>(operation), start, length) != 0) {
    ZoneInfo info = {.write_pointer = state.write_pointer};
    IOStatus status = Explain(errno, zone, "a zone command", &info);
    state.write_pointer = info.write_pointer;
    // The kernel says EIO to a transition that the zone's state does not allow.
    const bool forbidden = (operation == ZBD_OP_OPEN && info.condition == ZoneCondition::kFull) ||
                           (operation == ZBD_OP_CLOSE && !IsActive(info.condition));
    if (ErrorOf(status) != DeviceError::kIo || !forbidden) return status;
    return Fail(DeviceError::kWrongState, zone, "a zone command");
  }
  ++*counter;
  if (operation == ZBD_OP_FINISH) {
    counters_.pad_bytes += state.capacity - state.write_pointer;
    state.write_pointer = state.capacity;
  } else if (operation == ZBD_OP_RESET) {
    state.write_pointer = 0;
  }
  return IOStatus::OK();
}

}  // namespace zlfs
