#include "zlfs/zoned/emulated_device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace zlfs {

IOStatus EmulatedDevice::Open(DeviceKind kind, const std::string& name, const ShapeRequest& request,
                              Access access, std::unique_ptr<EmulatedDevice>* device) {
  const bool memory = kind == DeviceKind::kMemory;
  std::shared_ptr<Image> image;
  RETURN_IF_ERROR(memory ? Image::OpenMemory(name, request, &image)
                         : Image::OpenFile(name, request, access, &image));
  if (access != Access::kReadOnly && !image->Claim()) {
    return MakeError(DeviceError::kBusy, name + ": another handle uses it");
  }
  char id[17];
  std::snprintf(id, sizeof(id), "%016llx", static_cast<unsigned long long>(image->id()));
  const EmulatedShape& shape = image->shape();
  const auto block_size = static_cast<std::uint32_t>(shape.block_size);
  device->reset(new EmulatedDevice(image, access));
  (*device)->SetGeometry({.block_size = block_size,
                          .read_alignment = 1,
                          .zone_size = shape.zone_size,
                          .zone_count = static_cast<std::uint32_t>(shape.zones),
                          .max_active = static_cast<std::uint32_t>(shape.max_active),
                          .max_open = static_cast<std::uint32_t>(shape.max_open),
                          .kind = kind,
                          .waits = false,
                          .identity = memory ? "mem." + name : std::string("file.") + id,
                          .path = memory ? "mem:" + name : name});
  (*device)->max_active_ = (*device)->geometry_.max_active;
  (*device)->max_open_ = (*device)->geometry_.max_open;
  return IOStatus::OK();
}

EmulatedDevice::~EmulatedDevice() {
  if (access_ != Access::kReadOnly) image_->Release();
}

ZoneInfo EmulatedDevice::Known(std::uint32_t zone) const {
  const ZoneState state = image_->State(zone);
  const bool full = state.condition == ZoneCondition::kFull;
  // A kernel device has no write pointer of such a zone either (kernel_device.cc).
  const bool lost =
      state.condition == ZoneCondition::kReadOnly || state.condition == ZoneCondition::kOffline;
  return {.capacity = Capacity(zone),
          .write_pointer = full   ? Capacity(zone)
                           : lost ? 0
                                  : state.written * geometry_.block_size,
          .condition = state.condition};
}

IOStatus EmulatedDevice::DoReport(std::uint32_t first, std::uint32_t count,
                                  std::vector<ZoneInfo>* zones) {
  zones->reserve(count);
  for (std::uint32_t zone = first; zone < first + count; ++zone) zones->push_back(Known(zone));
  return IOStatus::OK();
}

IOStatus EmulatedDevice::DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                                 std::uint64_t* written) {
  {
    const std::lock_guard lock(state_mutex_);
    if (!IsOpen(image_->State(zone).condition)) {
      RETURN_IF_ERROR(MakeOpen(zone, ZoneCondition::kImplicitlyOpen));
    }
  }
  // Copy without state_mutex_, so that other zones can proceed. The zone's lock is held, so the
  // write pointer does not move.
  std::memcpy(image_->Data(zone) + offset, buffer.data(), buffer.size());

  const std::lock_guard lock(state_mutex_);
  ZoneState state = image_->State(zone);
  const std::uint64_t blocks = buffer.size() / geometry_.block_size;
  if (image_->shape().cache != 0) {
    cached_.push_back({.zone = zone, .first = state.written, .blocks = blocks});
  }
  state.written += blocks;
  if (offset + buffer.size() == Capacity(zone)) state.condition = ZoneCondition::kFull;
  image_->SetState(zone, state);
  *written = buffer.size();
  return IOStatus::OK();
}

IOStatus EmulatedDevice::DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                                char* buffer) {
  const ZoneState state = image_->State(zone);
  if (state.condition == ZoneCondition::kOffline) {
    return Fail(DeviceError::kZoneOffline, zone, "a read");
  }
  const std::uint64_t written = state.written * geometry_.block_size;
  const std::size_t stored = std::min<std::uint64_t>(size, written - std::min(written, offset));
  std::memcpy(buffer, image_->Data(zone) + offset, stored);
  std::memset(buffer + stored, 0, size - stored);
  return IOStatus::OK();
}

IOStatus EmulatedDevice::DoFlush() {
  if (image_->shape().cache == 0) return IOStatus::OK();
  const std::lock_guard lock(state_mutex_);
  for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
    image_->SetDurable(zone, image_->State(zone));
  }
  cached_.clear();
  return IOStatus::OK();
}

IOStatus EmulatedDevice::DoChange(std::uint32_t zone, ZoneCondition to) {
  const std::lock_guard lock(state_mutex_);
  if (to == ZoneCondition::kExplicitlyOpen) return MakeOpen(zone, to);
  const bool reset = to == ZoneCondition::kEmpty;
  const std::uint64_t durable = image_->Durable(zone).written;
  image_->SetState(zone, {.condition = to, .written = reset ? 0 : image_->State(zone).written});
  if (to == ZoneCondition::kClosed) return IOStatus::OK();
  // Resets and finishes are durable at once, but a finish does not make cached data durable.
  image_->SetDurable(zone, {.condition = to, .written = reset ? 0 : durable});
  for (CachedWrite& write : cached_) {
    if (reset && write.zone == zone) write.blocks = 0;
  }
  return IOStatus::OK();
}

// Brings a zone to the wanted open condition, within the limits.
IOStatus EmulatedDevice::MakeOpen(std::uint32_t zone, ZoneCondition wanted) {
  ZoneState state = image_->State(zone);
  if (!IsActive(state.condition) && Exhausted(max_active_, IsActive)) {
    return Fail(DeviceError::kActiveLimit, zone, "too many active zones");
  }
  if (!IsOpen(state.condition) && Exhausted(max_open_, IsOpen) && !CloseAnother()) {
    return Fail(DeviceError::kOpenLimit, zone, "too many explicitly open zones");
  }
  state.condition = wanted;
  image_->SetState(zone, state);
  return IOStatus::OK();
}

// Returns whether the number of zones in the given conditions has reached the limit.
bool EmulatedDevice::Exhausted(std::uint32_t limit, bool (*counts)(ZoneCondition)) const {
  std::uint32_t count = 0;
  for (std::uint32_t zone = 0; limit != 0 && zone < geometry_.zone_count; ++zone) {
    count += counts(image_->State(zone).condition) ? 1 : 0;
  }
  return limit != 0 && count >= limit;
}

// Closes an implicitly open zone to free an open slot, as ZNS devices do.
bool EmulatedDevice::CloseAnother() {
  for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
    const ZoneState state = image_->State(zone);
    if (state.condition != ZoneCondition::kImplicitlyOpen) continue;
    image_->SetState(zone, {.condition = ZoneCondition::kClosed, .written = state.written});
    return true;
  }
  return false;
}

}  // namespace zlfs
