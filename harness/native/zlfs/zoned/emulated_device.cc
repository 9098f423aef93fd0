#include "zlfs/zoned/emulated_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "zlfs/zoned/buffer.h"

namespace zlfs {
IOStatus EmulatedDevice::OpenMemory(const std::string& name, const EmulatedOptions& options,
                                    Access access, std::unique_ptr<EmulatedDevice>* device) {
  std::shared_ptr<Image> image;
  IOStatus status = Image::OpenMemory(name, options.shape, &image);
  if (!status.ok()) return status;
  status = Open(std::move(image), options, access, "mem:" + name, device);
  if (status.ok()) {
    (*device)->geometry_.kind = DeviceKind::kMemory;
    (*device)->geometry_.identity = "mem." + name;
  }
  return status;
}

IOStatus EmulatedDevice::OpenFile(const std::string& path, const EmulatedOptions& options,
                                  Access access, std::unique_ptr<EmulatedDevice>* device) {
  std::shared_ptr<Image> image;
  IOStatus status = Image::OpenFile(path, options.shape, access, &image);
  if (!status.ok()) return status;
  char id[17];
  std::snprintf(id, sizeof(id), "%016llx", static_cast<unsigned long long>(image->id()));
  status = Open(std::move(image), options, access, path, device);
  if (status.ok()) {
    (*device)->geometry_.kind = DeviceKind::kFile;
    (*device)->geometry_.identity = std::string("file.") + id;
  }
  return status;
}

IOStatus EmulatedDevice::Open(std::shared_ptr<Image> image, const EmulatedOptions& options,
                              Access access, std::string path,
                              std::unique_ptr<EmulatedDevice>* device) {
  if (access == Access::kReadWrite && !image->Claim()) {
    return MakeError(DeviceError::kBusy, path + ": written by another one");
  }
  device->reset(new EmulatedDevice(std::move(image), access, options.direct));
  (*device)->geometry_.path = std::move(path);
  if (options.power_loss && access == Access::kReadWrite) (*device)->PowerLoss({});
  return IOStatus::OK();
}

EmulatedDevice::EmulatedDevice(std::shared_ptr<Image> image, Access access, bool direct)
    : ZonedDevice(access),
      image_(std::move(image)),
      capacity_blocks_(image_->shape().zone_capacity / image_->shape().block_size),
      zone_mutexes_(std::make_unique<std::mutex[]>(image_->shape().zones)),
      max_active_(static_cast<std::uint32_t>(image_->shape().max_active)),
      max_open_(static_cast<std::uint32_t>(image_->shape().max_open)) {
  const EmulatedShape& shape = image_->shape();
  geometry_.block_size = static_cast<std::uint32_t>(shape.block_size);
  geometry_.read_alignment = direct ? geometry_.block_size : 1;
  geometry_.zone_size = shape.zone_size;
  geometry_.zone_count = static_cast<std::uint32_t>(shape.zones);
  geometry_.max_active = max_active_;
  geometry_.max_open = max_open_;
  Recount();
}

EmulatedDevice::~EmulatedDevice() {
  if (access_ == Access::kReadWrite) image_->Release();
}

std::uint64_t EmulatedDevice::WritePointer(ZoneState state) const {
  const bool full = state.condition == ZoneCondition::kFull;
  return (full ? capacity_blocks_ : state.written) * geometry_.block_size;
}

IOStatus EmulatedDevice::Report(std::uint32_t first, std::uint32_t count,
                                std::vector<ZoneInfo>* zones) {
  if (IOStatus status = CheckRange(first, count); !status.ok()) return status;
  zones->clear();
  zones->reserve(count);
  for (std::uint32_t zone = first; zone < first + count; ++zone) {
    const ZoneState state = image_->State(zone);
    zones->push_back({.start = zone * geometry_.zone_size,
                      .capacity = image_->shape().zone_capacity,
                      .write_pointer = WritePointer(state),
                      .condition = state.condition,
                      .type = ZoneType::kSequential});
  }
  return IOStatus::OK();
}

IOStatus EmulatedDevice::Write(std::uint32_t zone, std::uint64_t offset,
                               std::span<const Slice> buffers) {
  if (IOStatus status = CheckChange(zone); !status.ok()) return status;
  std::uint64_t size = 0;
  if (IOStatus status = CheckBuffers(zone, offset, buffers, &size); !status.ok()) return status;
  const std::lock_guard zone_lock(zone_mutexes_[zone]);
  {
    const std::lock_guard lock(state_mutex_);
    if (IOStatus status = AdmitWrite(zone, offset, size); !status.ok()) return status;
  }
  // Nobody else moves this zone's write pointer meanwhile; other zones go on.
  char* target = image_->Data(zone) + offset;
  for (const Slice& buffer : buffers) {
    std::memcpy(target, buffer.data(), buffer.size());
    target += buffer.size();
  }

  const std::lock_guard lock(state_mutex_);
  const std::uint64_t blocks = size / geometry_.block_size;
  ZoneState state = image_->State(zone);
  if (image_->shape().volatile_cache != 0) {
    cached_.push_back({.zone = zone, .first = state.written, .blocks = blocks});
  }
  state.written += blocks;
  if (state.written == capacity_blocks_) state.condition = ZoneCondition::kFull;
  Transition(zone, state);
  counters_.bytes_written += size;
  ++counters_.writes;
  return IOStatus::OK();
}

// Whether the zone takes the write; if so the zone is open. Needs state_mutex_.
IOStatus EmulatedDevice::AdmitWrite(std::uint32_t zone, std::uint64_t offset, std::uint64_t size) {
  const ZoneState state = image_->State(zone);
  if (IOStatus status = CheckUsable(zone, "a write"); !status.ok()) return status;
  IOStatus status = CheckPlace(zone, offset, size, WritePointer(state));
  if (!status.ok() || IsOpen(state.condition)) return status;
  return MakeOpen(zone, ZoneCondition::kImplicitlyOpen);
}

IOStatus EmulatedDevice::Read(std::uint64_t offset, std::size_t size, char* buffer) {
  if (IOStatus status = CheckRead(offset, size, buffer); !status.ok()) return status;
  const auto zone = static_cast<std::uint32_t>(offset / geometry_.zone_size);
  const std::uint64_t inside = offset % geometry_.zone_size;
  const ZoneState state = image_->State(zone);
  if (state.condition == ZoneCondition::kOffline) {
    return Fail(DeviceError::kZoneOffline, zone, "a read");
  }
  const std::uint64_t written = state.written * geometry_.block_size;
  const std::size_t stored = std::min<std::uint64_t>(size, written - std::min(written, inside));
  std::memcpy(buffer, image_->Data(zone) + inside, stored);
  std::memset(buffer + stored, 0, size - stored);
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  counters_.bytes_read.fetch_add(size, std::memory_order_relaxed);
  return IOStatus::OK();
}

IOStatus EmulatedDevice::Flush() {
  if (IOStatus status = CheckAccess(); !status.ok()) return status;
  const std::lock_guard lock(state_mutex_);
  ++counters_.flushes;
  if (image_->shape().volatile_cache != 0) {
    for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
      image_->SetDurable(zone, image_->State(zone));
    }
    cached_.clear();
  }
  return IOStatus::OK();
}

IOStatus EmulatedDevice::OpenZone(std::uint32_t zone) {
  return Manage(zone, [this, zone](ZoneState state) {
    if (state.condition == ZoneCondition::kFull) {
      return Fail(DeviceError::kWrongState, zone, "opening a full zone");
    }
    IOStatus status = MakeOpen(zone, ZoneCondition::kExplicitlyOpen);
    if (status.ok()) ++counters_.opens;
    return status;
  });
}

IOStatus EmulatedDevice::CloseZone(std::uint32_t zone) {
  return Manage(zone, [this, zone](ZoneState state) {
    if (!IsActive(state.condition)) {
      return Fail(DeviceError::kWrongState, zone, "closing an empty or full zone");
    }
    Transition(zone, {.condition = ZoneCondition::kClosed, .written = state.written});
    ++counters_.closes;
    return IOStatus::OK();
  });
}

IOStatus EmulatedDevice::FinishZone(std::uint32_t zone) {
  return Manage(zone, [this, zone](ZoneState state) {
    counters_.pad_bytes += Capacity(zone) - WritePointer(state);
    ++counters_.finishes;
    Transition(zone, {.condition = ZoneCondition::kFull, .written = state.written});
    // Full for good, with what was durable of its bytes.
    image_->SetDurable(
        zone, {.condition = ZoneCondition::kFull, .written = image_->Durable(zone).written});
    return IOStatus::OK();
  });
}

IOStatus EmulatedDevice::ResetZone(std::uint32_t zone) {
  return Manage(zone, [this, zone](ZoneState) {
    Transition(zone, {});
    image_->SetDurable(zone, {});
    for (CachedWrite& write : cached_) {
      if (write.zone == zone) write.blocks = 0;
    }
    ++counters_.resets;
    return IOStatus::OK();
  });
}

// Carries out a zone command under the zone's locks.
IOStatus EmulatedDevice::Manage(std::uint32_t zone,
                                const std::function<IOStatus(ZoneState)>& command) {
  if (IOStatus status = CheckChange(zone); !status.ok()) return status;
  const std::lock_guard zone_lock(zone_mutexes_[zone]);
  const std::lock_guard lock(state_mutex_);
  if (IOStatus status = CheckUsable(zone, "a zone command"); !status.ok()) return status;
  return command(image_->State(zone));
}

// Needs no lock.
IOStatus EmulatedDevice::CheckUsable(std::uint32_t zone, const char* command) const {
  const ZoneCondition condition = image_->State(zone).condition;
  if (condition == ZoneCondition::kReadOnly) {
    return Fail(DeviceError::kZoneReadOnly, zone, command);
  }
  if (condition == ZoneCondition::kOffline) return Fail(DeviceError::kZoneOffline, zone, command);
  return IOStatus::OK();
}

// Opens an empty or closed zone within the limits, or makes an open one explicitly open.
IOStatus EmulatedDevice::MakeOpen(std::uint32_t zone, ZoneCondition wanted) {
  ZoneState state = image_->State(zone);
  if (!IsActive(state.condition) && max_active_ != 0 && active_ >= max_active_) {
    return Fail(DeviceError::kActiveLimit, zone, "too many active zones");
  }
  if (!IsOpen(state.condition) && max_open_ != 0 && open_ >= max_open_ && !CloseAnother(zone)) {
    return Fail(DeviceError::kOpenLimit, zone, "too many explicitly open zones");
  }
  state.condition = wanted;
  Transition(zone, state);
  return IOStatus::OK();
}

// A device that is out of open zones closes one that it opened by itself.
bool EmulatedDevice::CloseAnother(std::uint32_t zone) {
  for (std::uint32_t other = 0; other < geometry_.zone_count; ++other) {
    ZoneState state = image_->State(other);
    if (other == zone || state.condition != ZoneCondition::kImplicitlyOpen) continue;
    state.condition = ZoneCondition::kClosed;
    Transition(other, state);
    return true;
  }
  return false;
}

// The one place where a zone's state changes.
void EmulatedDevice::Transition(std::uint32_t zone, ZoneState next) {
  const ZoneCondition before = image_->State(zone).condition;
  active_ += static_cast<std::uint32_t>(IsActive(next.condition)) -
             static_cast<std::uint32_t>(IsActive(before));
  open_ += static_cast<std::uint32_t>(IsOpen(next.condition)) -
           static_cast<std::uint32_t>(IsOpen(before));
  image_->SetState(zone, next);
  if (image_->shape().volatile_cache == 0) image_->SetDurable(zone, next);
}

void EmulatedDevice::SetLimits(std::uint32_t max_active, std::uint32_t max_open) {
  const std::lock_guard lock(state_mutex_);
  max_active_ = max_active;
  max_open_ = max_open;
}

void EmulatedDevice::BreakZone(std::uint32_t zone, ZoneCondition condition) {
  const std::lock_guard lock(state_mutex_);
  ZoneState state = image_->State(zone);
  state.condition = condition;
  Transition(zone, state);
  image_->SetDurable(zone, state);
}

std::vector<CachedWrite> EmulatedDevice::cached() const {
  const std::lock_guard lock(state_mutex_);
  return cached_;
}

void EmulatedDevice::PowerLoss(std::size_t whole, std::uint64_t blocks) {
  std::vector<std::uint64_t> kept;
  for (const CachedWrite& write : cached()) kept.push_back(kept.size() < whole ? write.blocks : 0);
  if (whole < kept.size()) kept[whole] = blocks;
  PowerLoss(kept);
}

void EmulatedDevice::PowerLoss(std::span<const std::uint64_t> kept) {
  const std::lock_guard lock(state_mutex_);
  // What survives of each zone grows write by write, until one of its writes is torn.
  std::vector<std::uint64_t> survives(geometry_.zone_count);
  for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
    survives[zone] = image_->Durable(zone).written;
  }
  for (std::size_t i = 0; i < std::min(kept.size(), cached_.size()); ++i) {
    const CachedWrite& write = cached_[i];
    if (survives[write.zone] == write.first) {
      survives[write.zone] += std::min(kept[i], write.blocks);
    }
  }
  // Zones that were not full first: they only give active zones back.
  for (const bool full : {false, true}) {
    for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
      ZoneState state = image_->State(zone);
      const bool broken = state.condition > ZoneCondition::kFull;
      if (broken || (state.condition == ZoneCondition::kFull) != full) continue;
      state.written = survives[zone];
      // A zone that was filled is as active as its surviving bytes make it, if the device has an
      // active zone left: no device reports more than its limit.
      const bool no_active_left = full && max_active_ != 0 && active_ >= max_active_;
      if (image_->Durable(zone).condition == ZoneCondition::kFull) {
        state.condition = ZoneCondition::kFull;
      } else if (state.written == 0) {
        state.condition = ZoneCondition::kEmpty;
      } else if (state.written == capacity_blocks_ || no_active_left) {
        state.condition = ZoneCondition::kFull;
      } else {
        state.condition = ZoneCondition::kClosed;
      }
      Transition(zone, state);
      image_->SetDurable(zone, state);
    }
  }
  cached_.clear();
}

IOStatus EmulatedDevice::Clone(const std::string& name,
                               std::unique_ptr<EmulatedDevice>* clone) const {
  const std::lock_guard lock(state_mutex_);
  EmulatedOptions options;
  for (const ShapeField& field : kShapeFields) {
    options.shape[field.name] = image_->shape().*field.value;
  }
  options.direct = geometry_.read_alignment > 1;
  IOStatus status = OpenMemory(name, options, Access::kReadWrite, clone);
  if (!status.ok()) return status;
  for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
    const ZoneState state = image_->State(zone);
    std::memcpy((*clone)->image_->Data(zone), image_->Data(zone),
                state.written * geometry_.block_size);
    (*clone)->image_->SetState(zone, state);
    (*clone)->image_->SetDurable(zone, image_->Durable(zone));
  }
  (*clone)->cached_ = cached_;
  (*clone)->Recount();
  return status;
}

void EmulatedDevice::Recount() {
  active_ = open_ = 0;
  for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
    const ZoneCondition condition = image_->State(zone).condition;
    active_ += IsActive(condition) ? 1 : 0;
    open_ += IsOpen(condition) ? 1 : 0;
  }
}

}  // namespace zlfs
