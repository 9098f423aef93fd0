#include "zlfs/tests/emulated_faults.h"

#include <algorithm>
#include <cstring>

namespace zlfs {

void EmulatedFaults::SetLimits(EmulatedDevice& device, std::uint32_t max_active,
                               std::uint32_t max_open) {
  device.max_active_ = max_active;
  device.max_open_ = max_open;
}

void EmulatedFaults::BreakZone(EmulatedDevice& device, std::uint32_t zone,
                               ZoneCondition condition) {
  const ZoneState broken = {.condition = condition, .written = device.image_->State(zone).written};
  device.image_->SetState(zone, broken);
  device.image_->SetDurable(zone, broken);
}

void EmulatedFaults::PowerLoss(EmulatedDevice& device, std::size_t whole, std::uint64_t blocks) {
  std::vector<std::uint64_t> kept;
  for (std::size_t i = 0; i < std::min(whole, device.cached_.size()); ++i)
    kept.push_back(device.cached_[i].blocks);
  kept.push_back(blocks);
  PowerLoss(device, kept);
}

void EmulatedFaults::PowerLoss(EmulatedDevice& device, std::span<const std::uint64_t> kept) {
  // Adds the surviving writes of each zone in order, up to its first torn write.
  std::vector<std::uint64_t> survives;
  for (std::uint32_t zone = 0; zone < device.geometry_.zone_count; ++zone) {
    survives.push_back(device.image_->Durable(zone).written);
  }
  for (std::size_t i = 0; i < std::min(kept.size(), device.cached_.size()); ++i) {
    const auto& [zone, first, blocks] = device.cached_[i];
    if (survives[zone] == first) survives[zone] += std::min(kept[i], blocks);
  }
  device.cached_.clear();
  // Handles zones that were not full first, because they can only release active zones. A full zone
  // that lost bytes becomes active again only if the device's limit allows it.
  for (const bool full : {false, true}) {
    for (std::uint32_t zone = 0; zone < device.geometry_.zone_count; ++zone) {
      const ZoneCondition before = device.image_->State(zone).condition;
      const bool broken = before > ZoneCondition::kFull;
      if (broken || (before == ZoneCondition::kFull) != full) continue;
      const bool finished = device.image_->Durable(zone).condition == ZoneCondition::kFull;
      ZoneState after = {.condition = ZoneCondition::kClosed, .written = survives[zone]};
      if (after.written == 0 && !finished) {
        after.condition = ZoneCondition::kEmpty;
      } else if (finished || (full && device.Exhausted(device.max_active_, IsActive)) ||
                 after.written * device.geometry_.block_size == device.Capacity(zone)) {
        after.condition = ZoneCondition::kFull;
      }
      device.image_->SetState(zone, after);
      device.image_->SetDurable(zone, after);
    }
  }
}

IOStatus EmulatedFaults::Clone(const EmulatedDevice& device, const std::string& name,
                               std::unique_ptr<EmulatedDevice>* clone) {
  ShapeRequest request;
  for (const ShapeField& field : kShapeFields) {
    request[field.name] = device.image_->shape().*field.value;
  }
  IOStatus status =
      EmulatedDevice::Open(DeviceKind::kMemory, name, request, Access::kReadWrite, clone);
  if (!status.ok()) return status;
  for (std::uint32_t zone = 0; zone < device.geometry_.zone_count; ++zone) {
    const ZoneState state = device.image_->State(zone);
    Image& copy = *(*clone)->image_;
    std::memcpy(copy.Data(zone), device.image_->Data(zone),
                state.written * device.geometry_.block_size);
    copy.SetState(zone, state);
    copy.SetDurable(zone, device.image_->Durable(zone));
  }
  (*clone)->cached_ = device.cached_;
  return status;
}

}  // namespace zlfs
