// Opens a device by its specification, the part of a zlfs URI after "zlfs://":
//
//   dev:<name or path>           a zoned block device of the kernel
//   mem:<name>                   emulated in memory until the process ends
//   file:<path>                  emulated in a file, which outlives the process
//   model:<path>                 emulated, with the times of the modelled drive in this JSON file
//
// Options follow as ?option=value&option=value. For mem and file, they define a new device; an
// existing device must match them. Sizes accept the suffixes K, M and G.
//
//   zones, zone_size             both required to create a device
//   zone_capacity                default: zone_size
//   block_size                   512 or 4096, default 4096
//   max_active                   default 0: no limit
//   max_open                     default: max_active
//   cache=none|volatile          volatile: writes become durable only at the next Flush

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

// Opens "dev:nvme0n2?a=b", with or without the prefix "zlfs://". Stores the options that are not
// device options in `options`. If `options` is null, such options are an error ("unknown-option").
IOStatus OpenDevice(const std::string& text, Access access, OptionMap* options,
                    std::unique_ptr<ZonedDevice>* device);
// Parses an option's value. If `words` is not empty, returns the index of `text` in it. Otherwise
// parses a number such as "64", "64K", "64M" or "64G".
std::optional<std::uint64_t> OptionValue(std::string_view text,
                                         std::span<const std::string_view> words);
IOStatus NothingLeft(const OptionMap& options);  // fails with "unknown-option" if not empty

// `name` is a kernel name (nvme0n2) or a path; links such as /dev/disk/by-id/... are followed.
// kReadAlone and kReadWrite open the device exclusively: the call fails with kBusy if it is mounted
// or in use.
IOStatus OpenKernelDevice(const std::string& name, Access access,
                          std::unique_ptr<ZonedDevice>* device, const Sysfs& sysfs = Sysfs());

}  // namespace zlfs
