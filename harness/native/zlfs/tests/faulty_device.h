// A device whose commands fail when a test says so.

#pragma once

#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "zlfs/zoned/device.h"
#include "zlfs/zoned/errors.h"

namespace zlfs {

enum class Operation : std::uint8_t { kRead, kWrite, kFlush, kOpen, kClose, kFinish, kReset };

// Makes commands of one kind fail: the next `after` of them succeed, then `times` fail.
struct Fault {
  static constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

  Operation operation = Operation::kWrite;
  std::uint64_t after = 0;
  std::uint64_t times = 1;
  DeviceError::Name error = DeviceError::kIo;
  std::uint64_t landed_blocks = 0;  // of a failing write: they reach the zone
};

class FaultyDevice final : public ZonedDevice {
 public:
  explicit FaultyDevice(ZonedDevice* inner) : ZonedDevice(Access::kReadWrite), inner_(inner) {
    geometry_ = inner->geometry();
  }

  void Inject(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(fault);
  }
  void ClearFaults() {
    const std::lock_guard lock(mutex_);
    faults_.clear();
  }

  IOStatus Report(std::uint32_t first, std::uint32_t count, std::vector<ZoneInfo>* zones) override {
    return inner_->Report(first, count, zones);
  }
  IOStatus Write(std::uint32_t zone, std::uint64_t offset, const Slice& buffer) override {
    Fault fault;
    if (!Take(Operation::kWrite, &fault)) return inner_->Write(zone, offset, buffer);
    if (fault.landed_blocks > 0) {
      const std::size_t landed = fault.landed_blocks * geometry_.block_size;
      IOStatus status = inner_->Write(zone, offset, Slice(buffer.data(), landed));
      if (!status.ok()) return status;
    }
    return MakeError(fault.error, "injected");
  }
  IOStatus Read(std::uint64_t offset, std::size_t size, char* buffer) override {
    Fault fault;
    return Take(Operation::kRead, &fault) ? MakeError(fault.error, "injected")
                                          : inner_->Read(offset, size, buffer);
  }
  IOStatus Flush() override {
    Fault fault;
    return Take(Operation::kFlush, &fault) ? MakeError(fault.error, "injected") : inner_->Flush();
  }
  IOStatus OpenZone(std::uint32_t zone) override {
    return Zone(Operation::kOpen, &ZonedDevice::OpenZone, zone);
  }
  IOStatus CloseZone(std::uint32_t zone) override {
    return Zone(Operation::kClose, &ZonedDevice::CloseZone, zone);
  }
  IOStatus FinishZone(std::uint32_t zone) override {
    return Zone(Operation::kFinish, &ZonedDevice::FinishZone, zone);
  }
  IOStatus ResetZone(std::uint32_t zone) override {
    return Zone(Operation::kReset, &ZonedDevice::ResetZone, zone);
  }
  Counters counters() const override { return inner_->counters(); }

 private:
  IOStatus Zone(Operation operation, IOStatus (ZonedDevice::*command)(std::uint32_t),
                std::uint32_t zone) {
    Fault fault;
    return Take(operation, &fault) ? MakeError(fault.error, "injected") : (inner_->*command)(zone);
  }

  bool Take(Operation operation, Fault* taken) {
    const std::lock_guard lock(mutex_);
    bool took = false;
    for (Fault& fault : faults_) {
      if (fault.operation != operation || fault.times == 0) continue;
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

  ZonedDevice* const inner_;
  std::mutex mutex_;  // guards faults_
  std::vector<Fault> faults_;
};

}  // namespace zlfs
