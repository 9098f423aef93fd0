#include "zlfs/zoned/device.h"

namespace zlfs {
namespace {

bool Aligned(const void* address, std::uint64_t unit) {
  return reinterpret_cast<std::uintptr_t>(address) % unit == 0;
}

}  // namespace

Counters ZonedDevice::counters() const {
  return {.bytes_written = counters_.bytes_written,
          .writes = counters_.writes,
          .bytes_read = counters_.bytes_read,
          .reads = counters_.reads,
          .flushes = counters_.flushes,
          .opens = counters_.opens,
          .closes = counters_.closes,
          .finishes = counters_.finishes,
          .pad_bytes = counters_.pad_bytes,
          .resets = counters_.resets};
}

IOStatus ZonedDevice::Fail(DeviceError error, std::uint32_t zone, std::string_view detail) const {
  return MakeError(error,
                   geometry_.path + ", zone " + std::to_string(zone) + ": " + std::string(detail));
}

IOStatus ZonedDevice::CheckRange(std::uint32_t first, std::uint32_t count) const {
  if (first <= geometry_.zone_count && count <= geometry_.zone_count - first) return IOStatus::OK();
  return Fail(DeviceError::kOutOfRange, first, "no such zone");
}

IOStatus ZonedDevice::CheckAccess() const {
  if (access_ == Access::kReadWrite) return IOStatus::OK();
  return MakeError(DeviceError::kReadOnlyHandle, geometry_.path + ": opened for reading");
}

IOStatus ZonedDevice::CheckChange(std::uint32_t zone) const {
  IOStatus status = CheckAccess();
  return status.ok() ? CheckRange(zone, 1) : status;
}

IOStatus ZonedDevice::CheckBuffers(std::uint32_t zone, std::uint64_t offset,
                                   std::span<const Slice> buffers, std::uint64_t* size) const {
  const std::uint64_t block = geometry_.block_size;
  *size = 0;
  bool aligned = offset % block == 0;
  for (const Slice& buffer : buffers) {
    aligned = aligned && buffer.size() % block == 0 && Aligned(buffer.data(), block);
    *size += buffer.size();
  }
  if (aligned && *size > 0) return IOStatus::OK();
  return Fail(DeviceError::kUnaligned, zone, "a write");
}

IOStatus ZonedDevice::CheckPlace(std::uint32_t zone, std::uint64_t offset, std::uint64_t size,
                                 std::uint64_t write_pointer) const {
  const std::uint64_t capacity = Capacity(zone);
  if (write_pointer == capacity) return Fail(DeviceError::kZoneFull, zone, "a write");
  if (offset >= capacity) return Fail(DeviceError::kOutOfRange, zone, "a write");
  if (size > capacity - offset) return Fail(DeviceError::kBoundary, zone, "a write");
  if (offset == write_pointer) return IOStatus::OK();
  return Fail(DeviceError::kNotAtWritePointer, zone, "a write");
}

IOStatus ZonedDevice::CheckRead(std::uint64_t offset, std::size_t size, const char* buffer) const {
  const std::uint64_t unit = geometry_.read_alignment;
  const std::uint64_t number = offset / geometry_.zone_size;
  const std::uint64_t inside = offset % geometry_.zone_size;
  if (number >= geometry_.zone_count) {
    return MakeError(DeviceError::kOutOfRange, geometry_.path + ": a read");
  }
  const auto zone = static_cast<std::uint32_t>(number);
  const std::uint64_t capacity = Capacity(zone);
  if (inside > capacity || size > capacity - inside) {
    return Fail(DeviceError::kOutOfRange, zone, "a read");
  }
  if (inside % unit == 0 && size % unit == 0 && Aligned(buffer, unit)) return IOStatus::OK();
  return Fail(DeviceError::kUnaligned, zone, "a read");
}

}  // namespace zlfs
