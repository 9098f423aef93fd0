#include "zlfs/zoned/emulated_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "zlfs/zoned/buffer.h"

namespace zlfs {
namespace {

bool Aligned(std::uint64_t value, std::uint64_t unit) { return value % unit == 0; }

bool Aligned(const void* address, std::uint64_t unit) {
  return Aligned(reinterpret_cast<std::uintptr_t>(address), unit);
}

// Copies the first `size` bytes of the buffers to `target`.
void Gather(std::span<const Slice> buffers, std::uint64_t size, char* target) {
  for (const Slice& buffer : buffers) {
    const std::size_t part = std::min<std::uint64_t>(size, buffer.size());
    std::memcpy(target, buffer.data(), part);
    target += part;
    size -= part;
  }
}

}  // namespace

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
    : image_(std::move(image)),
      access_(access),
      capacity_blocks_(image_->shape().zone_capacity / image_->shape().block_size),
      zone_mutexes_(std::make_unique<std::mutex[]>(image_->shape().zone_count)),
      max_active_(image_->shape().max_active),
      max_open_(image_->shape().max_open) {
  const EmulatedShape& shape = image_->shape();
  geometry_.block_size = shape.block_size;
  geometry_.read_alignment = direct ? shape.block_size : 1;
  geometry_.zone_size = shape.zone_size;
  geometry_.zone_count = shape.zone_count;
  geometry_.max_active = shape.max_active;
  geometry_.max_open = shape.max_open;
  Recount();
}

EmulatedDevice::~EmulatedDevice() {
  if (access_ == Access::kReadWrite) image_->Release();
}

IOStatus EmulatedDevice::Fail(DeviceError error, std::uint32_t zone, const char* detail) const {
  return MakeError(error, geometry_.path + ", zone " + std::to_string(zone) + ": " + detail);
}

// Whether a command that changes a zone makes sense at all.
IOStatus EmulatedDevice::CheckCommand(std::uint32_t zone) const {
  if (access_ == Access::kReadOnly) {
    return Fail(DeviceError::kReadOnlyHandle, zone, "opened for reading");
  }
  if (zone >= geometry_.zone_count) return Fail(DeviceError::kOutOfRange, zone, "no such zone");
  return IOStatus::OK();
}

std::uint64_t EmulatedDevice::WritePointer(ZoneState state) const {
  const bool full = state.condition == ZoneCondition::kFull;
  return (full ? capacity_blocks_ : state.written) * geometry_.block_size;
}

IOStatus EmulatedDevice::Report(std::uint32_t first, std::uint32_t count,
                                std::vector<ZoneInfo>* zones) {
  if (first > geometry_.zone_count || count > geometry_.zone_count - first) {
    return Fail(DeviceError::kOutOfRange, first, "no such zones");
  }
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
  if (IOStatus status = CheckCommand(zone); !status.ok()) return status;
  const std::uint64_t block = geometry_.block_size;
  std::uint64_t size = 0;
  for (const Slice& buffer : buffers) {
    if (!Aligned(buffer.size(), block) || !Aligned(buffer.data(), block)) {
      return Fail(DeviceError::kUnaligned, zone, "a buffer of a write");
    }
    size += buffer.size();
  }
  if (size == 0 || !Aligned(offset, block)) {
    return Fail(DeviceError::kUnaligned, zone, "offset or size of a write");
  }

  const std::lock_guard zone_lock(zone_mutexes_[zone]);
  std::uint64_t landing = size;
  DeviceError fault = DeviceError::kNone;
  {
    const std::lock_guard lock(state_mutex_);
    IOStatus status = AdmitWrite(zone, offset, size, &landing, &fault);
    if (!status.ok()) return status;
  }
  // Nobody else moves this zone's write pointer meanwhile; other zones go on.
  Gather(buffers, landing, image_->Data(zone) + offset);

  const std::lock_guard lock(state_mutex_);
  ZoneState state = image_->State(zone);
  state.written += landing / block;
  if (state.written == capacity_blocks_ && IsActive(state.condition)) {
    state.condition = ZoneCondition::kFull;
  }
  Transition(zone, state);
  counters_.bytes_written += landing;
  if (image_->shape().volatile_cache && landing > 0) {
    cached_.push_back({.zone = zone, .first = offset / block, .blocks = landing / block});
  }
  if (fault != DeviceError::kNone) return Fail(fault, zone, "injected into a write");
  ++counters_.writes;
  return IOStatus::OK();
}

IOStatus EmulatedDevice::AdmitWrite(std::uint32_t zone, std::uint64_t offset, std::uint64_t size,
                                    std::uint64_t* landing, DeviceError* fault) {
  const ZoneState state = image_->State(zone);
  switch (state.condition) {
    case ZoneCondition::kFull:
      return Fail(DeviceError::kZoneFull, zone, "a write");
    case ZoneCondition::kReadOnly:
      return Fail(DeviceError::kZoneReadOnly, zone, "a write");
    case ZoneCondition::kOffline:
      return Fail(DeviceError::kZoneOffline, zone, "a write");
    default:
      break;
  }
  const std::uint64_t capacity = image_->shape().zone_capacity;
  if (offset >= capacity) return Fail(DeviceError::kOutOfRange, zone, "a write");
  if (size > capacity - offset) return Fail(DeviceError::kBoundary, zone, "a write");
  if (offset != WritePointer(state)) return Fail(DeviceError::kNotAtWritePointer, zone, "a write");
  if (const Fault* taken = TakeFault(Operation::kWrite); taken != nullptr) {
    *fault = taken->error;
    const std::uint64_t blocks = std::min(taken->landed_blocks, size / geometry_.block_size);
    *landing = blocks * geometry_.block_size;
    if (*landing == 0) return Fail(*fault, zone, "injected into a write");
  }
  return IsOpen(state.condition) ? IOStatus::OK() : MakeOpen(zone, ZoneCondition::kImplicitlyOpen);
}

IOStatus EmulatedDevice::Read(std::uint64_t offset, std::size_t size, char* buffer) {
  const std::uint64_t unit = geometry_.read_alignment;
  const std::uint64_t number = offset / geometry_.zone_size;
  const std::uint64_t inside = offset % geometry_.zone_size;
  const std::uint64_t capacity = image_->shape().zone_capacity;
  if (number >= geometry_.zone_count || inside > capacity || size > capacity - inside) {
    return MakeError(DeviceError::kOutOfRange, geometry_.path + ": a read");
  }
  const auto zone = static_cast<std::uint32_t>(number);
  if (!Aligned(offset, unit) || !Aligned(size, unit) || !Aligned(buffer, unit)) {
    return Fail(DeviceError::kUnaligned, zone, "a read");
  }
  const ZoneState state = image_->State(zone);
  if (state.condition == ZoneCondition::kOffline) {
    return Fail(DeviceError::kZoneOffline, zone, "a read");
  }
  if (read_faults_.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(state_mutex_);
    if (const Fault* fault = TakeFault(Operation::kRead); fault != nullptr) {
      return Fail(fault->error, zone, "injected into a read");
    }
  }
  const std::uint64_t written = state.written * geometry_.block_size;
  const std::size_t stored = std::min<std::uint64_t>(size, written - std::min(written, inside));
  std::memcpy(buffer, image_->Data(zone) + inside, stored);
  std::memset(buffer + stored, 0, size - stored);
  reads_.fetch_add(1, std::memory_order_relaxed);
  bytes_read_.fetch_add(size, std::memory_order_relaxed);
  return IOStatus::OK();
}

IOStatus EmulatedDevice::Flush() {
  if (access_ == Access::kReadOnly) {
    return MakeError(DeviceError::kReadOnlyHandle, geometry_.path + ": opened for reading");
  }
  const std::lock_guard lock(state_mutex_);
  if (const Fault* fault = TakeFault(Operation::kFlush); fault != nullptr) {
    return MakeError(fault->error, geometry_.path + ": injected into a flush");
  }
  ++counters_.flushes;
  if (image_->shape().volatile_cache) {
    for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
      image_->SetDurable(zone, image_->State(zone));
    }
    cached_.clear();
  }
  return IOStatus::OK();
}

IOStatus EmulatedDevice::OpenZone(std::uint32_t zone) { return Manage(Operation::kOpen, zone); }
IOStatus EmulatedDevice::CloseZone(std::uint32_t zone) { return Manage(Operation::kClose, zone); }
IOStatus EmulatedDevice::FinishZone(std::uint32_t zone) { return Manage(Operation::kFinish, zone); }
IOStatus EmulatedDevice::ResetZone(std::uint32_t zone) { return Manage(Operation::kReset, zone); }

IOStatus EmulatedDevice::Manage(Operation operation, std::uint32_t zone) {
  if (IOStatus status = CheckCommand(zone); !status.ok()) return status;
  const std::lock_guard zone_lock(zone_mutexes_[zone]);
  const std::lock_guard lock(state_mutex_);
  if (IOStatus status = CheckTransition(operation, zone); !status.ok()) return status;
  if (const Fault* fault = TakeFault(operation); fault != nullptr) {
    return Fail(fault->error, zone, "injected into a zone command");
  }
  ZoneState state = image_->State(zone);
  switch (operation) {
    case Operation::kOpen: {
      IOStatus status = MakeOpen(zone, ZoneCondition::kExplicitlyOpen);
      if (status.ok()) ++counters_.opens;
      return status;
    }
    case Operation::kClose:
      state.condition = ZoneCondition::kClosed;
      Transition(zone, state);
      ++counters_.closes;
      break;
    case Operation::kFinish: {
      counters_.pad_bytes += image_->shape().zone_capacity - WritePointer(state);
      ++counters_.finishes;
      state.condition = ZoneCondition::kFull;
      Transition(zone, state);
      // Full for good, with what was durable of its bytes.
      image_->SetDurable(
          zone, {.condition = ZoneCondition::kFull, .written = image_->Durable(zone).written});
      break;
    }
    default:  // reset
      Transition(zone, {});
      image_->SetDurable(zone, {});
      VoidCached(zone);
      ++counters_.resets;
      break;
  }
  return IOStatus::OK();
}

// The zone state machine of NVMe ZNS, as far as commands are concerned.
IOStatus EmulatedDevice::CheckTransition(Operation operation, std::uint32_t zone) const {
  const ZoneCondition condition = image_->State(zone).condition;
  if (condition == ZoneCondition::kReadOnly) {
    return Fail(DeviceError::kZoneReadOnly, zone, "a zone command");
  }
  if (condition == ZoneCondition::kOffline) {
    return Fail(DeviceError::kZoneOffline, zone, "a zone command");
  }
  if (operation == Operation::kOpen && condition == ZoneCondition::kFull) {
    return Fail(DeviceError::kWrongState, zone, "opening a full zone");
  }
  if (operation == Operation::kClose && !IsActive(condition)) {
    return Fail(DeviceError::kWrongState, zone, "closing an empty or full zone");
  }
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
  if (!image_->shape().volatile_cache) image_->SetDurable(zone, next);
}

Counters EmulatedDevice::counters() const {
  const std::lock_guard lock(state_mutex_);
  Counters counters = counters_;
  counters.reads = reads_.load(std::memory_order_relaxed);
  counters.bytes_read = bytes_read_.load(std::memory_order_relaxed);
  return counters;
}

void EmulatedDevice::Inject(const Fault& fault) {
  const std::lock_guard lock(state_mutex_);
  faults_.push_back(fault);
  if (fault.operation == Operation::kRead) read_faults_ = true;
}

void EmulatedDevice::ClearFaults() {
  const std::lock_guard lock(state_mutex_);
  faults_.clear();
  read_faults_ = false;
}

Fault* EmulatedDevice::TakeFault(Operation operation) {
  Fault* taken = nullptr;
  for (Fault& fault : faults_) {
    if (fault.operation != operation || fault.times == 0) continue;
    if (fault.after > 0) {
      --fault.after;
    } else if (taken == nullptr) {
      if (fault.times != Fault::kForever) --fault.times;
      taken = &fault;
    }
  }
  return taken;
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

void EmulatedDevice::VoidCached(std::uint32_t zone) {
  for (CachedWrite& write : cached_) {
    if (write.zone == zone) write.blocks = 0;
  }
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
  const EmulatedShape& shape = image_->shape();
  EmulatedOptions options;
  options.shape = {.block_size = shape.block_size,
                   .zone_count = shape.zone_count,
                   .zone_size = shape.zone_size,
                   .zone_capacity = shape.zone_capacity,
                   .max_active = shape.max_active,
                   .max_open = shape.max_open,
                   .volatile_cache = shape.volatile_cache};
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
