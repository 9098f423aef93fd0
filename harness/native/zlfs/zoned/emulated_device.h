// An emulated zoned device in memory or in a file. It follows the NVMe ZNS specification, including
// its errors.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "zlfs/zoned/device.h"
#include "zlfs/zoned/image.h"

namespace zlfs {

// A write accepted since the last flush. A reset of its zone sets the length to 0.
struct CachedWrite {
  std::uint32_t zone = 0;
  std::uint64_t first = 0;   // block in the zone
  std::uint64_t blocks = 0;  // length
};

class EmulatedDevice final : public ZonedDevice {
 public:
  // `name` is the file path for kFile and an arbitrary name for kMemory.
  static IOStatus Open(DeviceKind kind, const std::string& name, const ShapeRequest& request,
                       Access access, std::unique_ptr<EmulatedDevice>* device);
  ~EmulatedDevice() override;

 private:
  friend struct EmulatedFaults;  // of the tests
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

  // These require state_mutex_.
  IOStatus MakeOpen(std::uint32_t zone, ZoneCondition wanted);
  bool CloseAnother();
  bool Exhausted(std::uint32_t limit, bool (*counts)(ZoneCondition)) const;

  const std::shared_ptr<Image> image_;

  // Guards the members below and all changes of zone states. Reading a state needs no lock. Lock
  // order: after a zone's lock.
  std::mutex state_mutex_;
  std::uint32_t max_active_ = 0;
  std::uint32_t max_open_ = 0;
  std::vector<CachedWrite> cached_;
};

}  // namespace zlfs
