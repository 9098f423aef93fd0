// A device that forwards each command to another device. Base class of modelled and of misbehaving
// devices.

#pragma once

#include <cstdint>
#include <vector>

#include "zlfs/zoned/device.h"

namespace zlfs {

class ForwardingDevice : public ZonedDevice {
 public:
  // `inner` must outlive this device.
  explicit ForwardingDevice(ZonedDevice* inner, Access access = Access::kReadWrite)
      : ZonedDevice(access), inner_(inner) {
    SetGeometry(inner->geometry());
    for (const ZoneInfo& zone : Zones(0, geometry_.zone_count))
      capacities_.push_back(zone.capacity);
  }

 protected:
  std::uint64_t Capacity(std::uint32_t zone) const override { return capacities_[zone]; }
  ZoneInfo Known(std::uint32_t zone) const override { return Zones(zone, 1)[0]; }
  IOStatus DoReport(std::uint32_t first, std::uint32_t count,
                    std::vector<ZoneInfo>* zones) override {
    return inner_->Report(first, count, zones);
  }
  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                   std::uint64_t* written) override {
    return inner_->Write(zone, offset, buffer, written);
  }
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override {
    return inner_->Read(zone, offset, size, buffer);
  }
  IOStatus DoFlush() override { return inner_->Flush(); }
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    return inner_->ChangeZone(zone, to);
  }

  ZonedDevice* const inner_;

 private:
  std::vector<ZoneInfo> Zones(std::uint32_t first, std::uint32_t count) const {
    std::vector<ZoneInfo> zones;
    inner_->Report(first, count, &zones).PermitUncheckedError();
    zones.resize(count);
    return zones;
  }

  std::vector<std::uint64_t> capacities_;
};

}  // namespace zlfs
