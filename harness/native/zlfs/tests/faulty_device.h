// A device whose commands fail on request of a test.

#pragma once

#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "zlfs/tests/forwarding_device.h"
#include "zlfs/zoned/errors.h"

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
};

class FaultyDevice final : public ForwardingDevice {
 public:
  // `inner` carries out the commands. It must outlive this device.
  explicit FaultyDevice(ZonedDevice* inner) : ForwardingDevice(inner) {}

  void Inject(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(fault);
  }
  void ClearFaults() {
    const std::lock_guard lock(mutex_);
    faults_.clear();
  }

 private:
  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                   std::uint64_t* written) override {
    Fault fault;
    if (!Take(Operation::kWrite, &fault)) return inner_->Write(zone, offset, buffer, written);
    if (fault.landed_blocks > 0) {
      const std::size_t landed = fault.landed_blocks * geometry_.block_size;
      RETURN_IF_ERROR(inner_->Write(zone, offset, Slice(buffer.data(), landed), written));
    }
    return MakeError(fault.error, "injected");
  }
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override {
    Fault fault;
    return Take(Operation::kRead, &fault) ? MakeError(fault.error, "injected")
                                          : inner_->Read(zone, offset, size, buffer);
  }
  IOStatus DoFlush() override {
    Fault fault;
    return Take(Operation::kFlush, &fault) ? MakeError(fault.error, "injected") : inner_->Flush();
  }
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    const Operation operation = to == ZoneCondition::kExplicitlyOpen ? Operation::kOpen
                                : to == ZoneCondition::kClosed       ? Operation::kClose
                                : to == ZoneCondition::kFull         ? Operation::kFinish
                                                                     : Operation::kReset;
    Fault fault;
    return Take(operation, &fault) ? MakeError(fault.error, "injected")
                                   : inner_->ChangeZone(zone, to);
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

  std::mutex mutex_;  // guards faults_
  std::vector<Fault> faults_;
};

}  // namespace zlfs
