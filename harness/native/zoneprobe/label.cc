#include "zoneprobe/label.h"

#include <algorithm>
#include <cstring>

#include "zlfs/zoned/buffer.h"

namespace zoneprobe {

using zlfs::DeviceError;
using zlfs::IOStatus;

IOStatus WriteLabel(zlfs::ZonedDevice* device, const std::string& label) {
  if (label.empty() || label.size() >= kLabelSize) {
    return zlfs::MakeError(DeviceError::kBadSpec, "a label must have 1 to 31 bytes");
  }
  const std::size_t size = device->geometry().block_size;
  const zlfs::AlignedBuffer block = zlfs::AllocateAligned(size);
  std::memset(block.get(), 0, size);
  std::memcpy(block.get(), kMagic, kLabelAt);
  std::copy(label.begin(), label.end(), block.get() + kLabelAt);
  RETURN_IF_ERROR(device->Write(0, 0, zlfs::Slice(block.get(), size)));
  RETURN_IF_ERROR(device->FinishZone(0));
  return device->Flush();
}

IOStatus CheckLabel(zlfs::ZonedDevice* device) {
  std::vector<zlfs::ZoneInfo> zones;
  RETURN_IF_ERROR(device->Report(0, 1, &zones));
  const std::size_t size = device->geometry().block_size;
  const zlfs::AlignedBuffer block = zlfs::AllocateAligned(size);
  RETURN_IF_ERROR(device->Read(0, 0, size, block.get()));
  const bool labelled = zones[0].condition == zlfs::ZoneCondition::kFull &&
                        std::memcmp(block.get(), kMagic, kLabelAt) == 0;
  if (labelled) return IOStatus::OK();
  return zlfs::MakeError("not-labelled",
                         device->geometry().path + ": zone 0 holds no label of zoneprobe");
}

}  // namespace zoneprobe
