// Test-only functions of the emulated device: shrink or break zones, lose power, clone the device.

#include <algorithm>
#include <cstring>

#include "zlfs/zoned/emulated_device.h"

namespace zlfs {

void EmulatedDevice::SetLimits(std::uint32_t max_active, std::uint32_t max_open) {
  max_active_ = max_active;
  max_open_ = max_open;
}

void EmulatedDevice::BreakZone(std::uint32_t zone, ZoneCondition condition) {
  const ZoneState broken = {.condition = condition, .written = image_->State(zone).written};
  image_->SetState(zone, broken);
  image_->SetDurable(zone, broken);
}

void EmulatedDevice::PowerLoss(std::size_t whole, std::uint64_t blocks) {
  std::vector<std::uint64_t> kept;
  for (std::size_t i = 0; i < std::min(whole, cached_.size()); ++i)
    kept.push_back(cached_[i].blocks);
  kept.push_back(blocks);
  PowerLoss(kept);
}

void EmulatedDevice::PowerLoss(std::span<const std::uint64_t> kept) {
  // Adds the surviving writes of each zone in order, up to its first torn write.
  std::vector<std::uint64_t> survives;
  for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
    survives.push_back(image_->Durable(zone).written);
  }
  for (std::size_t i = 0; i < std::min(kept.size(), cached_.size()); ++i) {
    const auto& [zone, first, blocks] = cached_[i];
    if (survives[zone] == first) survives[zone] += std::min(kept[i], blocks);
  }
  cached_.clear();
  // Handles zones that were not full first, because they can only release active zones. A full zone
  // that lost bytes becomes active again only if the device's limit allows it.
  for (const bool full : {false, true}) {
    for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
      const ZoneCondition before = image_->State(zone).condition;
      const bool broken = before > ZoneCondition::kFull;
      if (broken || (before == ZoneCondition::kFull) != full) continue;
      const bool finished = image_->Durable(zone).condition == ZoneCondition::kFull;
      ZoneState after = {.condition = ZoneCondition::kClosed, .written = survives[zone]};
      if (after.written == 0 && !finished) {
        after.condition = ZoneCondition::kEmpty;
      } else if (finished || (full && Exhausted(max_active_, IsActive)) ||
                 after.written * geometry_.block_size == Capacity(zone)) {
        after.condition = ZoneCondition::kFull;
      }
      image_->SetState(zone, after);
      image_->SetDurable(zone, after);
    }
  }
}

IOStatus EmulatedDevice::Clone(const std::string& name,
                               std::unique_ptr<EmulatedDevice>* clone) const {
  ShapeRequest request;
  for (const ShapeField& field : kShapeFields) {
    request[field.name] = image_->shape().*field.value;
  }
  IOStatus status = Open(DeviceKind::kMemory, name, request, Access::kReadWrite, clone);
  if (!status.ok()) return status;
  for (std::uint32_t zone = 0; zone < geometry_.zone_count; ++zone) {
    const ZoneState state = image_->State(zone);
    Image& copy = *(*clone)->image_;
    std::memcpy(copy.Data(zone), image_->Data(zone), state.written * geometry_.block_size);
    copy.SetState(zone, state);
    copy.SetDurable(zone, image_->Durable(zone));
  }
  (*clone)->cached_ = cached_;
  return status;
}

}  // namespace zlfs
