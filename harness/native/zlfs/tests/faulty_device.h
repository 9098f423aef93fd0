// A device that fails on request of a test: commands fail, zones shrink, the process dies.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "zlfs/zoned/errors.h"
#include "zlfs/zoned/forwarding_device.h"

namespace zlfs {

enum class Operation : std::uint8_t { kRead, kWrite, kFlush, kOpen, kClose, kFinish, kReset };

// Makes commands of one kind fail: the next `after` commands succeed, then `times` commands fail.
struct Fault {
  static constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

  Operation operation = Operation::kWrite;
  std::uint64_t after = 0;
  std::uint64_t times = 1;
  DeviceError::Name error = DeviceError::kIo;
  std::uint64_t landed_blocks = 0;  // blocks of a failing write that reach the zone
  std::optional<std::uint32_t> zone = std::nullopt;  // counts only commands for this zone
};

class FaultyDevice final : public ForwardingDevice {
 public:
  // Capacities of zones that a reset made smaller. They outlive a mount.
  using Capacities = std::shared_ptr<std::map<std::uint32_t, std::uint64_t>>;

  // `inner` carries out the commands. It must outlive this device.
  explicit FaultyDevice(ZonedDevice* inner, Capacities capacities = nullptr)
      : ForwardingDevice(inner), capacities_(std::move(capacities)) {
    if (capacities_ != nullptr) shrunk_ = reported_ = *capacities_;
  }

  void Inject(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(fault);
  }
  // All writes to the zone fail.
  void FailZone(std::uint32_t zone) {
    const std::lock_guard lock(mutex_);
    failing_zones_.insert(zone);
  }
  // From its next reset on, the zone takes only `capacity` bytes. The write that exceeds them is
  // cut off, and the device then makes the zone full. The kernel reports the new capacity only when
  // the device is opened again.
  void ShrinkAtReset(std::uint32_t zone, std::uint64_t capacity) {
    const std::lock_guard lock(mutex_);
    shrinking_[zone] = capacity;
  }
  // The next commands call `wait` before they begin.
  void SlowDown(std::uint64_t commands, std::function<void()> wait) {
    const std::lock_guard lock(mutex_);
    slow_ = commands;
    wait_ = std::move(wait);
  }
  // After this many modifying commands, no command reaches the inner device: its writer is dead.
  void DieAfter(std::uint64_t commands) {
    const std::lock_guard lock(mutex_);
    life_ = commands;
  }
  void ClearFaults() {
    const std::lock_guard lock(mutex_);
    faults_.clear();
    failing_zones_.clear();
    slow_ = 0;
  }

 private:
  std::uint64_t Capacity(std::uint32_t zone) const override {
    const auto known = reported_.find(zone);
    return known == reported_.end() ? ForwardingDevice::Capacity(zone) : known->second;
  }
  ZoneInfo Known(std::uint32_t zone) const override {
    return Reported(zone, ForwardingDevice::Known(zone));
  }
  ZoneInfo Reported(std::uint32_t zone, ZoneInfo info) const {
    const auto known = reported_.find(zone);
    if (known == reported_.end()) return info;
    info.capacity = known->second;
    info.write_pointer = std::min(info.write_pointer, info.capacity);
    return info;
  }
  IOStatus DoReport(std::uint32_t first, std::uint32_t count,
                    std::vector<ZoneInfo>* zones) override {
    RETURN_IF_ERROR(ForwardingDevice::DoReport(first, count, zones));
    for (std::uint32_t i = 0; i < count; ++i) (*zones)[i] = Reported(first + i, (*zones)[i]);
    return IOStatus::OK();
  }
  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                   std::uint64_t* written) override {
    RETURN_IF_ERROR(Live());
    Fault fault;
    std::uint64_t limit = Fault::kForever;
    {
      const std::lock_guard lock(mutex_);
      if (failing_zones_.contains(zone)) return MakeError(DeviceError::kIo, "injected");
      if (const auto shrunk = shrunk_.find(zone); shrunk != shrunk_.end()) limit = shrunk->second;
    }
    if (offset + buffer.size() > limit) {
      const std::size_t landed = limit - std::min(limit, offset);
      if (landed > 0) {
        RETURN_IF_ERROR(inner_->Write(zone, offset, Slice(buffer.data(), landed), written));
      }
      RETURN_IF_ERROR(inner_->FinishZone(zone));
      return MakeError(DeviceError::kZoneFull, "injected");
    }
    if (!Take(Operation::kWrite, zone, &fault)) return inner_->Write(zone, offset, buffer, written);
    if (fault.landed_blocks > 0) {
      const std::size_t landed =
          std::min<std::size_t>(fault.landed_blocks * geometry_.block_size, buffer.size());
      RETURN_IF_ERROR(inner_->Write(zone, offset, Slice(buffer.data(), landed), written));
    }
    return MakeError(fault.error, "injected");
  }
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override {
    if (Dead()) return MakeError(DeviceError::kIo, "dead");
    Fault fault;
    return Take(Operation::kRead, zone, &fault) ? MakeError(fault.error, "injected")
                                                : inner_->Read(zone, offset, size, buffer);
  }
  IOStatus DoFlush() override {
    RETURN_IF_ERROR(Live());
    Fault fault;
    return Take(Operation::kFlush, {}, &fault) ? MakeError(fault.error, "injected")
                                               : inner_->Flush();
  }
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    RETURN_IF_ERROR(Live());
    const Operation operation = to == ZoneCondition::kExplicitlyOpen ? Operation::kOpen
                                : to == ZoneCondition::kClosed       ? Operation::kClose
                                : to == ZoneCondition::kFull         ? Operation::kFinish
                                                                     : Operation::kReset;
    Fault fault;
    if (Take(operation, zone, &fault)) return MakeError(fault.error, "injected");
    RETURN_IF_ERROR(inner_->ChangeZone(zone, to));
    const std::lock_guard lock(mutex_);
    if (const auto shrinking = shrinking_.find(zone);
        to == ZoneCondition::kEmpty && shrinking != shrinking_.end()) {
      shrunk_[zone] = shrinking->second;
      if (capacities_ != nullptr) (*capacities_)[zone] = shrinking->second;
    }
    return IOStatus::OK();
  }

  bool Dead() {
    const std::lock_guard lock(mutex_);
    return life_ == 0;
  }
  // Counts a modifying command.
  IOStatus Live() {
    std::unique_lock lock(mutex_);
    if (slow_ > 0) {
      --slow_;
      const std::function<void()> wait = wait_;
      lock.unlock();
      wait();
      lock.lock();
    }
    if (life_ == 0) return MakeError(DeviceError::kIo, "dead");
    if (life_ != Fault::kForever) --life_;
    return IOStatus::OK();
  }

  bool Take(Operation operation, std::optional<std::uint32_t> zone, Fault* taken) {
    const std::lock_guard lock(mutex_);
    bool took = false;
    for (Fault& fault : faults_) {
      if (fault.operation != operation || fault.times == 0) continue;
      if (fault.zone && fault.zone != zone) continue;
      if (fault.after > 0) {
        --fault.after;
      } else if (!took) {
        if (fault.times != Fault::kForever) --fault.times;
        *taken = fault;
        took = true;
      }
    }
    return took;
  }

  std::mutex mutex_;  // guards the members below
  std::vector<Fault> faults_;
  std::set<std::uint32_t> failing_zones_;
  std::map<std::uint32_t, std::uint64_t> shrinking_;  // zone -> bytes that it takes after a reset
  std::map<std::uint32_t, std::uint64_t> shrunk_;     // zone -> bytes that it takes
  const Capacities capacities_;
  std::uint64_t slow_ = 0;  // commands that wait
  std::function<void()> wait_;
  std::uint64_t life_ = Fault::kForever;  // modifying commands until death

  std::map<std::uint32_t, std::uint64_t> reported_;  // capacities when the device was opened
};

}  // namespace zlfs
