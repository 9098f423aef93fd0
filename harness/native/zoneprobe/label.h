// The label identifies the owner of a device, also after a crash.
//
// The first block of zone 0, little-endian and zero-padded:
//   offset  0  magic  "ZLPROBE1"
//           8  label  at most 31 bytes and a zero
//
// Zone 0 is then finished, so that it does not count as an active zone. It is never written again.

#pragma once

#include <string>

#include "zlfs/zoned/device.h"

namespace zoneprobe {

inline constexpr char kMagic[] = "ZLPROBE1";
inline constexpr std::size_t kLabelAt = 8;
inline constexpr std::size_t kLabelSize = 32;  // including the terminating zero

// Writes the label and finishes zone 0, which must be empty.
zlfs::IOStatus WriteLabel(zlfs::ZonedDevice* device, const std::string& label);

// Returns the error `not-labelled` unless zone 0 is full and holds a label.
zlfs::IOStatus CheckLabel(zlfs::ZonedDevice* device);

}  // namespace zoneprobe
