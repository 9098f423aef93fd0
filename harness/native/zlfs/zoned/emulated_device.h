// A zoned device in memory or in a file that behaves as NVMe ZNS says, down to its errors, as fast
// as memory can be copied. Tests make it shrink, break and lose power.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "zlfs/zoned/device.h"
#include "zlfs/zoned/image.h"

namespace zlfs {

// A write that was accepted since the last flush. Its length is 0 once its zone was reset.
struct CachedWrite {
  std::uint32_t zone = 0;
  std::uint64_t first = 0;   // block in the zone
  std::uint64_t blocks = 0;  // length
};

class EmulatedDevice final : public ZonedDevice {
 public:
  // `name` is the path of a kFile, and any word for a kMemory.
  static IOStatus Open(DeviceKind kind, const std::string& name, const ShapeRequest& request,
                       Access access, std::unique_ptr<EmulatedDevice>* device);
  ~EmulatedDevice() override;

  // For tests, and defined among them (tests/emulated_faults.cc). None of these may run beside
  // another command of the same device.

  // Changes what the device enforces; geometry() stays as it was. Active zones stay active.
  void SetLimits(std::uint32_t max_active, std::uint32_t max_open);
  // kReadOnly or kOffline: the device gives the zone up.
  void BreakZone(std::uint32_t zone, ZoneCondition condition);

  // Writes accepted since the last flush, oldest first (cache=volatile only).
  const std::vector<CachedWrite>& cached() const { return cached_; }
  // The power fails and comes back. Of cached()[i] the first kept[i] blocks survive, where every
  // earlier write to the same zone survived whole; open zones come back closed. Finishes and resets
  // are durable: a finished zone stays full, and what it lost reads as zeros.
  void PowerLoss(std::span<const std::uint64_t> kept);
  // The first `whole` cached writes survive, then `blocks` blocks of the next one.
  void PowerLoss(std::size_t whole, std::uint64_t blocks);
  // A copy in memory, cache included, whose handle is independent of this one. An unused in-memory
  // image of that name and shape is overwritten, which is cheaper than fresh memory.
  IOStatus Clone(const std::string& name, std::unique_ptr<EmulatedDevice>* clone) const;

 private:
  EmulatedDevice(std::shared_ptr<Image> image, Access access)
      : ZonedDevice(access), image_(std::move(image)) {}

  std::uint64_t Capacity(std::uint32_t /*zone*/) const override {
    return image_->shape().zone_capacity;
  }
  ZoneInfo Known(std::uint32_t zone) const override;
  IOStatus DoReport(std::uint32_t first, std::uint32_t count,
                    std::vector<ZoneInfo>* zones) override;
  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                   std::uint64_t* written) override;
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override;
  IOStatus DoFlush() override;
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override;

  // These need state_mutex_.
  IOStatus MakeOpen(std::uint32_t zone, ZoneCondition wanted);
  bool CloseAnother();
  bool Exhausted(std::uint32_t limit, bool (*counts)(ZoneCondition)) const;

  const std::shared_ptr<Image> image_;

  // Guards what follows and every change of a zone's state; reading a state needs no lock. Taken
  // after a zone's lock.
  std::mutex state_mutex_;
  std::uint32_t max_active_ = 0;
  std::uint32_t max_open_ = 0;
  std::vector<CachedWrite> cached_;
};

}  // namespace zlfs
