#include "zlfs/zoned/back_end.h"

#include <algorithm>

namespace zlfs {
namespace {

bool Aligned(const void* address, std::uint64_t unit) {
  return reinterpret_cast<std::uintptr_t>(address) % unit == 0;
}

}  // namespace

IOStatus BackEnd::Report(std::uint32_t first, std::uint32_t count, std::vector<ZoneInfo>* zones) {
  IOStatus status = CheckRange(first, count);
  if (!status.ok()) return status;
  zones->clear();
  return count == 0 ? status : DoReport(first, count, zones);
}

IOStatus BackEnd::Write(std::uint32_t zone, std::uint64_t offset, const Slice& buffer) {
  IOStatus status = CheckAccess();
  if (status.ok()) status = CheckRange(zone, 1);
  if (!status.ok()) return status;
  const std::uint64_t block = geometry_.block_size;
  if (buffer.empty() || (offset | buffer.size()) % block != 0 || !Aligned(buffer.data(), block)) {
    return Fail(DeviceError::kUnaligned, zone, "a write");
  }
  const std::lock_guard lock(zone_mutexes_[zone]);
  status = CheckPlace(zone, offset, buffer.size());
  if (!status.ok()) return status;
  std::uint64_t written = 0;
  status = DoWrite(zone, offset, buffer, &written);
  const std::lock_guard counters_lock(counters_mutex_);
  counters_.bytes_written += written;
  counters_.writes += status.ok() ? 1 : 0;
  return status;
}

// Whether a zone takes a write there. Needs the zone's lock.
IOStatus BackEnd::CheckPlace(std::uint32_t zone, std::uint64_t offset, std::uint64_t size) const {
  const ZoneInfo info = Known(zone);
  IOStatus status = CheckChange(zone, info.condition, ZoneCondition::kImplicitlyOpen);
  if (!status.ok()) return status;
  if (info.write_pointer == info.capacity) return Fail(DeviceError::kZoneFull, zone, "a write");
  if (offset >= info.capacity) return Fail(DeviceError::kOutOfRange, zone, "a write");
  if (size > info.capacity - offset) return Fail(DeviceError::kBoundary, zone, "a write");
  if (offset == info.write_pointer) return status;
  return Fail(DeviceError::kNotAtWritePointer, zone, "a write");
}

IOStatus BackEnd::Read(std::uint64_t offset, std::size_t size, char* buffer) {
  const std::uint64_t unit = geometry_.read_alignment;
  const std::uint64_t count = geometry_.zone_count;
  const auto zone = static_cast<std::uint32_t>(std::min(offset / geometry_.zone_size, count));
  const std::uint64_t inside = offset % geometry_.zone_size;
  if (IOStatus status = CheckRange(zone, 1); !status.ok()) return status;
  const std::uint64_t capacity = Capacity(zone);
  if (inside > capacity || size > capacity - inside) {
    return Fail(DeviceError::kOutOfRange, zone, "a read");
  }
  if (inside % unit != 0 || size % unit != 0 || !Aligned(buffer, unit)) {
    return Fail(DeviceError::kUnaligned, zone, "a read");
  }
  return DoRead(zone, inside, size, buffer);
}

IOStatus BackEnd::Flush() {
  IOStatus status = CheckAccess();
  if (status.ok()) status = DoFlush();
  const std::lock_guard lock(counters_mutex_);
  counters_.flushes += status.ok() ? 1 : 0;
  return status;
}

IOStatus BackEnd::Change(std::uint32_t zone, ZoneCondition to, std::uint64_t Counters::*counter) {
  IOStatus status = CheckAccess();
  if (status.ok()) status = CheckRange(zone, 1);
  if (!status.ok()) return status;
  const std::lock_guard lock(zone_mutexes_[zone]);
  const ZoneInfo before = Known(zone);
  status = CheckChange(zone, before.condition, to);
  if (status.ok()) status = DoChange(zone, to);
  if (!status.ok()) return status;
  const std::lock_guard counters_lock(counters_mutex_);
  counters_.*counter += 1;
  if (to == ZoneCondition::kFull) counters_.pad_bytes += before.capacity - before.write_pointer;
  return status;
}

IOStatus BackEnd::CheckChange(std::uint32_t zone, ZoneCondition from, ZoneCondition to) const {
  if (from == ZoneCondition::kReadOnly) return Fail(DeviceError::kZoneReadOnly, zone, "given up");
  if (from == ZoneCondition::kOffline) return Fail(DeviceError::kZoneOffline, zone, "given up");
  const bool forbidden = (from == ZoneCondition::kNoWritePointer && to != from) ||
                         (from == ZoneCondition::kFull && to == ZoneCondition::kExplicitlyOpen) ||
                         (!IsActive(from) && to == ZoneCondition::kClosed);
  return forbidden ? Fail(DeviceError::kWrongState, zone, "not in this state") : IOStatus::OK();
}

IOStatus BackEnd::CheckAccess() const {
  if (access_ == Access::kReadWrite) return IOStatus::OK();
  return MakeError(DeviceError::kReadOnlyHandle, geometry_.path + ": opened for reading");
}

IOStatus BackEnd::CheckRange(std::uint32_t first, std::uint32_t count) const {
  if (first <= geometry_.zone_count && count <= geometry_.zone_count - first) return IOStatus::OK();
  return Fail(DeviceError::kOutOfRange, first, "no such zone");
}

IOStatus BackEnd::Fail(DeviceError::Name error, std::uint32_t zone, std::string_view detail) const {
  return MakeError(error,
                   geometry_.path + ", zone " + std::to_string(zone) + ": " + std::string(detail));
}

Counters BackEnd::counters() const {
  const std::lock_guard lock(counters_mutex_);
  return counters_;
}

}  // namespace zlfs
