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

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "zlfs/zoned/device.h"
#include "zlfs/zoned/sysfs.h"

namespace zlfs {

using OptionMap = std::map<std::string, std::string>;

// Opens "dev:nvme0n2?a=b", with or without "zlfs://" in front. Options that are not the device's
// own are left to `options`; where it is null there must be none ("unknown-option").
IOStatus OpenDevice(const std::string& text, Access access, OptionMap* options,
                    std::unique_ptr<ZonedDevice>* device);
// What an option's text stands for: the place of a word among `words`, or where there are none
// "64", "64K", "64M" or "64G" as a number.
std::optional<std::uint64_t> OptionValue(std::string_view text,
                                         std::span<const std::string_view> words);
IOStatus NothingLeft(const OptionMap& options);  // "unknown-option" when something is

// `name` is a kernel name (nvme0n2) or a path, also a link of /dev/disk/by-id. Reading and
// writing opens exclusively: mounted or held devices are refused with kBusy.
IOStatus OpenKernelDevice(const std::string& name, Access access,
                          std::unique_ptr<ZonedDevice>* device, const Sysfs& sysfs = Sysfs());

}  // namespace zlfs
