// Opening a device by its specification, the part of a zlfs URI behind "zlfs://":
//
//   dev:<name or path>           a zoned block device of the kernel
//   mem:<name>                   emulated in this process's memory, alive until the process ends
//   file:<path>                  emulated in a file, which outlives the process
//
// followed by ?option=value&option=value. Options of mem and file make the device when it does not
// exist yet, and have to agree when it does; sizes take K, M or G:
//
//   zones, zone_size             both needed to make one
//   zone_capacity                default: zone_size
//   block_size                   512 or 4096, default 4096
//   max_active                   default 0: no limit
//   max_open                     default: max_active
//   cache=none|volatile          volatile: writes are durable at the next Flush only

#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "zlfs/zoned/device.h"

namespace zlfs {

struct DeviceSpec {
  std::string scheme;  // dev, mem or file
  std::string name;
  std::map<std::string, std::string> options;
};

// Parses "dev:nvme0n2?a=b", with or without "zlfs://" in front.
IOStatus ParseSpec(std::string_view text, DeviceSpec* spec);

// Opens the device and takes the options that are the device's own out of `spec->options`: what is
// left is for the caller to understand or to refuse with kUnknownOption.
IOStatus OpenDevice(DeviceSpec* spec, Access access, std::unique_ptr<ZonedDevice>* device);

}  // namespace zlfs
