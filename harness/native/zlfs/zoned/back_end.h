// What the kernel's and the emulated devices have in common: a command is checked, carried out
// under its zone's lock, and counted, here and nowhere else.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "zlfs/zoned/device.h"

namespace zlfs {

class BackEnd : public ZonedDevice {
 public:
  IOStatus Report(std::uint32_t first, std::uint32_t count, std::vector<ZoneInfo>* zones) final;
  IOStatus Write(std::uint32_t zone, std::uint64_t offset, const Slice& buffer) final;
  IOStatus Read(std::uint64_t offset, std::size_t size, char* buffer) final;
  IOStatus Flush() final;
  IOStatus OpenZone(std::uint32_t zone) final {
    return Change(zone, ZoneCondition::kExplicitlyOpen, &Counters::opens);
  }
  IOStatus CloseZone(std::uint32_t zone) final {
    return Change(zone, ZoneCondition::kClosed, &Counters::closes);
  }
  IOStatus FinishZone(std::uint32_t zone) final {
    return Change(zone, ZoneCondition::kFull, &Counters::finishes);
  }
  IOStatus ResetZone(std::uint32_t zone) final {
    return Change(zone, ZoneCondition::kEmpty, &Counters::resets);
  }
  Counters counters() const final;

 protected:
  explicit BackEnd(Access access) : ZonedDevice(access) {}
  // Before the first command.
  void SetGeometry(const Geometry& geometry) {
    geometry_ = geometry;
    zone_mutexes_ = std::make_unique<std::mutex[]>(geometry.zone_count);
  }

  virtual std::uint64_t Capacity(std::uint32_t zone) const = 0;  // of an existing zone
  // The state of a zone as far as this handle knows without asking. Needs the zone's lock.
  virtual ZoneInfo Known(std::uint32_t zone) const = 0;

  // The commands themselves, with arguments that are in range and aligned. DoWrite and DoChange
  // come under the zone's lock, with a write pointer and a condition that allow them.
  virtual IOStatus DoReport(std::uint32_t first, std::uint32_t count,
                            std::vector<ZoneInfo>* zones) = 0;
  // `written`: by how much the write pointer moved, also after an error.
  virtual IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                           std::uint64_t* written) = 0;
  virtual IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                          char* buffer) = 0;
  virtual IOStatus DoFlush() = 0;
  // Opens, closes, finishes or resets the zone.
  virtual IOStatus DoChange(std::uint32_t zone, ZoneCondition to) = 0;

  IOStatus Fail(DeviceError::Name error, std::uint32_t zone, std::string_view detail) const;
  // Whether a zone of this condition may be brought to condition `to`, and still works at all.
  IOStatus CheckChange(std::uint32_t zone, ZoneCondition from, ZoneCondition to) const;

 private:
  IOStatus Change(std::uint32_t zone, ZoneCondition to, std::uint64_t Counters::*counter);
  IOStatus CheckAccess() const;
  IOStatus CheckRange(std::uint32_t first, std::uint32_t count) const;
  IOStatus CheckPlace(std::uint32_t zone, std::uint64_t offset, std::uint64_t size) const;

  std::unique_ptr<std::mutex[]> zone_mutexes_;  // order the commands on each zone
  mutable std::mutex counters_mutex_;
  Counters counters_;  // guarded by counters_mutex_
};

}  // namespace zlfs
