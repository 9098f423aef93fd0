// Whose device it is, for whoever finds it after a crash.
//
// The first block of zone 0, little-endian and zero-padded:
//   offset  0  magic  "ZLPROBE1"
//           8  label  at most 31 bytes and a zero
//
// Zone 0 is finished behind it, so that it takes none of the device's active zones, and is not
// touched again.

#pragma once

#include <string>

#include "zlfs/zoned/device.h"

namespace zoneprobe {

inline constexpr char kMagic[] = "ZLPROBE1";
inline constexpr std::size_t kLabelAt = 8;
inline constexpr std::size_t kLabelSize = 32;  // with its zero

// Zone 0 must be empty.
zlfs::IOStatus WriteLabel(zlfs::ZonedDevice* device, const std::string& label);

// Whether the device carries a label of this kind, and zone 0 is full.
zlfs::IOStatus CheckLabel(zlfs::ZonedDevice* device);

}  // namespace zoneprobe
