#include "zlfs/zoned/device.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "zlfs/zoned/buffer.h"

namespace zlfs {
namespace {

// All other errno values map to kIo.
constexpr std::pair<int, DeviceError::Name> kErrnos[] = {
    {EOVERFLOW, DeviceError::kActiveLimit},   // Linux block layer
    {ETOOMANYREFS, DeviceError::kOpenLimit},  // Linux block layer
    {ENOSPC, DeviceError::kNoSpace},
    {EFBIG, DeviceError::kNoSpace},
    {EBUSY, DeviceError::kBusy},
    {EWOULDBLOCK, DeviceError::kBusy},
    {EPERM, DeviceError::kPermission},
    {EACCES, DeviceError::kPermission},
    {EROFS, DeviceError::kPermission},
    {ENOENT, DeviceError::kMissing},
    {ENOTDIR, DeviceError::kMissing},
    {ENODEV, DeviceError::kMissing},
    {ENXIO, DeviceError::kMissing}};

}  // namespace

IOStatus MakeError(DeviceError::Name error, std::string_view detail) {
  const Slice name(error.data(), error.size());
  const Slice text(detail.data(), detail.size());
  if (error == DeviceError::kBusy) return IOStatus::Busy(name, text);
  if (error == DeviceError::kNoSpace) return IOStatus::NoSpace(name, text);
  const bool asked = error == DeviceError::kBadSpec || error == DeviceError::kNotZoned;
  return asked ? IOStatus::InvalidArgument(name, text) : IOStatus::IOError(name, text);
}

bool IsNamed(const IOStatus& status, DeviceError::Name error) {
  if (status.getState() == nullptr) return false;
  const std::string_view text = status.getState();
  return text.substr(0, text.find(':')) == error;
}

IOStatus MakeSystemError(int error, std::string_view detail) {
  DeviceError::Name name = DeviceError::kIo;
  for (const auto& [number, known] : kErrnos) {
    if (number == error) name = known;
  }
  return MakeError(name, std::string(detail) + ": " + std::strerror(error));
}

void ZonedDevice::SetGeometry(const Geometry& geometry) {
  geometry_ = geometry;
  zone_mutexes_ = std::make_unique<std::mutex[]>(geometry.zone_count);
}

IOStatus ZonedDevice::Report(std::uint32_t first, std::uint32_t count,
                             std::vector<ZoneInfo>* zones) {
  RETURN_IF_ERROR(CheckRange(first, count));
  zones->clear();
  return count == 0 ? IOStatus::OK() : DoReport(first, count, zones);
}

IOStatus ZonedDevice::Write(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                            std::uint64_t* written) {
  std::uint64_t unasked = 0;
  if (written == nullptr) written = &unasked;
  *written = 0;
  RETURN_IF_ERROR(CheckAccess());
  RETURN_IF_ERROR(CheckRange(zone, 1));
  const auto fail = [this, zone](DeviceError::Name error) { return Fail(error, zone, "a write"); };
  const std::uint64_t block = geometry_.block_size;
  if (buffer.empty() || (offset | buffer.size()) % block != 0 || !Aligned(buffer.data(), block)) {
    return fail(DeviceError::kUnaligned);
  }
  const std::lock_guard lock(zone_mutexes_[zone]);
  const ZoneInfo info = Known(zone);
  RETURN_IF_ERROR(CheckChange(zone, info.condition, ZoneCondition::kImplicitlyOpen));
  if (info.write_pointer == info.capacity) return fail(DeviceError::kZoneFull);
  if (offset >= info.capacity) return fail(DeviceError::kOutOfRange);
  if (buffer.size() > info.capacity - offset) return fail(DeviceError::kBoundary);
  if (offset != info.write_pointer) return fail(DeviceError::kNotAtWritePointer);
  const IOStatus status = DoWrite(zone, offset, buffer, written);
  const std::lock_guard counters_lock(counters_mutex_);
  counters_.bytes_written += *written;
  counters_.writes += status.ok() ? 1 : 0;
  return status;
}

IOStatus ZonedDevice::Read(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                           char* buffer) {
  RETURN_IF_ERROR(CheckRange(zone, 1));
  const std::uint64_t unit = geometry_.read_alignment;
  const std::uint64_t capacity = Capacity(zone);
  if (offset > capacity || size > capacity - offset) {
    return Fail(DeviceError::kOutOfRange, zone, "a read");
  }
  if (offset % unit != 0 || size % unit != 0 || !Aligned(buffer, unit)) {
    return Fail(DeviceError::kUnaligned, zone, "a read");
  }
  return DoRead(zone, offset, size, buffer);
}

IOStatus ZonedDevice::Flush() {
  RETURN_IF_ERROR(CheckAccess());
  RETURN_IF_ERROR(DoFlush());
  const std::lock_guard lock(counters_mutex_);
  ++counters_.flushes;
  return IOStatus::OK();
}

IOStatus ZonedDevice::ChangeZone(std::uint32_t zone, ZoneCondition to) {
  RETURN_IF_ERROR(CheckAccess());
  RETURN_IF_ERROR(CheckRange(zone, 1));
  const std::lock_guard lock(zone_mutexes_[zone]);
  const ZoneInfo before = Known(zone);
  RETURN_IF_ERROR(CheckChange(zone, before.condition, to));
  RETURN_IF_ERROR(DoChange(zone, to));
  const std::lock_guard counters_lock(counters_mutex_);
  counters_.resets += to == ZoneCondition::kEmpty ? 1 : 0;
  if (to == ZoneCondition::kFull) {
    ++counters_.finishes;
    counters_.pad_bytes += before.capacity - before.write_pointer;
  }
  return IOStatus::OK();
}

IOStatus ZonedDevice::CheckChange(std::uint32_t zone, ZoneCondition from, ZoneCondition to) const {
  if (from == ZoneCondition::kReadOnly) return Fail(DeviceError::kZoneReadOnly, zone, "given up");
  if (from == ZoneCondition::kOffline) return Fail(DeviceError::kZoneOffline, zone, "given up");
  const bool forbidden = (from == ZoneCondition::kNoWritePointer && to != from) ||
                         (from == ZoneCondition::kFull && to == ZoneCondition::kExplicitlyOpen) ||
                         (!IsActive(from) && to == ZoneCondition::kClosed);
  return forbidden ? Fail(DeviceError::kWrongState, zone, "not in this state") : IOStatus::OK();
}

IOStatus ZonedDevice::CheckAccess() const {
  if (access_ == Access::kReadWrite) return IOStatus::OK();
  return MakeError(DeviceError::kReadOnlyHandle, geometry_.path + ": opened for reading");
}

IOStatus ZonedDevice::CheckRange(std::uint32_t first, std::uint32_t count) const {
  if (first <= geometry_.zone_count && count <= geometry_.zone_count - first) return IOStatus::OK();
  return Fail(DeviceError::kOutOfRange, first, "no such zone");
}

IOStatus ZonedDevice::Fail(DeviceError::Name error, std::uint32_t zone,
                           std::string_view detail) const {
  return MakeError(error,
                   geometry_.path + ", zone " + std::to_string(zone) + ": " + std::string(detail));
}

Counters ZonedDevice::counters() const {
  const std::lock_guard lock(counters_mutex_);
  return counters_;
}

}  // namespace zlfs
