// A zoned device in memory or in a file that behaves as NVMe ZNS says, down to its errors, as fast
// as memory can be copied. Tests make it shrink, break and lose power.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "zlfs/zoned/device.h"
#include "zlfs/zoned/image.h"
#include "zlfs/zoned/open.h"

namespace zlfs {

// A write that was accepted since the last flush. Its length is 0 once its zone was reset.
struct CachedWrite {
  std::uint32_t zone = 0;
  std::uint64_t first = 0;   // block in the zone
  std::uint64_t blocks = 0;  // length
};

struct EmulatedOptions {
  ShapeRequest shape;
  bool direct = false;      // reads have to be aligned
  bool power_loss = false;  // lose the cache before anything else
};

class EmulatedDevice final : public ZonedDevice {
 public:
  static IOStatus OpenMemory(const std::string& name, const EmulatedOptions& options, Access access,
                             std::unique_ptr<EmulatedDevice>* device);
  static IOStatus OpenFile(const std::string& path, const EmulatedOptions& options, Access access,
                           std::unique_ptr<EmulatedDevice>* device);
  ~EmulatedDevice() override;

  IOStatus Report(std::uint32_t first, std::uint32_t count, std::vector<ZoneInfo>* zones) override;
  using ZonedDevice::Write;
  IOStatus Write(std::uint32_t zone, std::uint64_t offset, std::span<const Slice> buffers) override;
  IOStatus Read(std::uint64_t offset, std::size_t size, char* buffer) override;
  IOStatus Flush() override;
  IOStatus OpenZone(std::uint32_t zone) override;
  IOStatus CloseZone(std::uint32_t zone) override;
  IOStatus FinishZone(std::uint32_t zone) override;
  IOStatus ResetZone(std::uint32_t zone) override;

  // For tests. None of these may run beside another command of the same device.

  // Changes what the device enforces; geometry() stays as it was. Active zones stay active.
  void SetLimits(std::uint32_t max_active, std::uint32_t max_open);
  // kReadOnly or kOffline: the device gives the zone up.
  void BreakZone(std::uint32_t zone, ZoneCondition condition);

  // Writes accepted since the last flush, oldest first (cache=volatile only).
  std::vector<CachedWrite> cached() const;
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
  EmulatedDevice(std::shared_ptr<Image> image, Access access, bool direct);
  static IOStatus Open(std::shared_ptr<Image> image, const EmulatedOptions& options, Access access,
                       std::string path, std::unique_ptr<EmulatedDevice>* device);

  std::uint64_t Capacity(std::uint32_t /*zone*/) const override {
    return image_->shape().zone_capacity;
  }
  std::uint64_t WritePointer(ZoneState state) const;
  IOStatus CheckUsable(std::uint32_t zone, const char* command) const;
  IOStatus Manage(std::uint32_t zone, const std::function<IOStatus(ZoneState)>& command);

  // All of these need state_mutex_.
  IOStatus AdmitWrite(std::uint32_t zone, std::uint64_t offset, std::uint64_t size);
  IOStatus MakeOpen(std::uint32_t zone, ZoneCondition wanted);
  bool CloseAnother(std::uint32_t zone);
  void Transition(std::uint32_t zone, ZoneState next);
  void Recount();

  const std::shared_ptr<Image> image_;
  const std::uint64_t capacity_blocks_;

  // One per zone: orders the commands on the zone and guards its data. Taken before state_mutex_.
  const std::unique_ptr<std::mutex[]> zone_mutexes_;

  // Guards what follows and every change of a zone's state; reading a state needs no lock.
  mutable std::mutex state_mutex_;
  std::uint32_t max_active_;
  std::uint32_t max_open_;
  std::uint32_t active_ = 0;
  std::uint32_t open_ = 0;
  std::vector<CachedWrite> cached_;
};

}  // namespace zlfs
