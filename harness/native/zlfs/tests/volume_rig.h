// A small volume whose device outlives its mounts, and devices that cannot be read.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "zlfs/tests/faulty_device.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs {

inline constexpr const char* kSmall = "zones=40&zone_size=128K&zone_capacity=96K&max_active=8";

// A device that outlives its volume.
struct Rig {
  explicit Rig(const std::string& options = kSmall, const Policy& policy = {})
      : device(MakeDevice(options)) {
    EXPECT_OK(Mkfs(device.get(), policy, ""));
    formatted = device->counters();
  }

  std::unique_ptr<Volume> Mount(const MountOptions& options = {}) {
    return MountOk(std::make_unique<HookedDevice>(device, [] {}), options);
  }
  // Mounts a device that fails as injected into `faulty`, until the next mount.
  std::unique_ptr<Volume> MountFaulty() {
    auto failing = std::make_unique<FaultyDevice>(device.get());
    faulty = failing.get();
    return MountOk(std::move(failing));
  }

  std::shared_ptr<EmulatedDevice> device;
  FaultyDevice* faulty = nullptr;
  Counters formatted;
};

// A device on which parts of zones cannot be read.
class UnreadableDevice final : public ForwardingDevice {
 public:
  explicit UnreadableDevice(EmulatedDevice* inner) : ForwardingDevice(inner) {}
  void Lose(std::uint32_t zone, std::uint64_t from) { lost_[zone] = from; }
  std::size_t largest_read() const { return largest_; }

 private:
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override {
    largest_ = std::max(largest_, size);
    const auto lost = lost_.find(zone);
    if (lost != lost_.end() && offset + size > lost->second) {
      return MakeError(DeviceError::kIo, "unreadable");
    }
    return inner_->Read(zone, offset, size, buffer);
  }
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    if (to == ZoneCondition::kEmpty) lost_.erase(zone);
    return inner_->ChangeZone(zone, to);
  }
  std::map<std::uint32_t, std::uint64_t> lost_;  // zone -> first byte that cannot be read
  std::size_t largest_ = 0;
};

// Writes and syncs a file.
inline IOStatus Put(Volume* volume, const std::string& name, const std::string& content,
                    const Placement& placement = DataPlacement()) {
  const auto file = Create(volume, name, FileKind::kData, placement);
  IOStatus status = volume->writer().Append(file.get(), content);
  if (status.ok()) status = volume->writer().Sync(file.get());
  const IOStatus finished = volume->writer().FinishWriting(file.get());
  return status.ok() ? finished : status;
}

// Changes the bytes of a zone without zlfs.
inline void Rewrite(EmulatedDevice* device, std::uint32_t zone, const std::string& content) {
  ASSERT_OK(device->ResetZone(zone));
  const AlignedBuffer buffer = AllocateAligned(content.size());
  std::memcpy(buffer.get(), content.data(), content.size());
  ASSERT_OK(device->Write(zone, 0, Slice(buffer.get(), content.size())));
}

}  // namespace zlfs
