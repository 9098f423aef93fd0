// A zoned block device of the Linux kernel, through libzbd and O_DIRECT.

#pragma once

#include <memory>
#include <string>

#include "zlfs/zoned/device.h"
#include "zlfs/zoned/sysfs.h"

namespace zlfs {

// `name` is a kernel name (nvme0n2) or a path, also a link of /dev/disk/by-id. Reading and
// writing opens exclusively: mounted or held devices are refused with kBusy.
IOStatus OpenKernelDevice(const std::string& name, Access access,
                          std::unique_ptr<ZonedDevice>* device, const Sysfs& sysfs = Sysfs());

}  // namespace zlfs
