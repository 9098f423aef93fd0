// Names of what can go wrong with a device. RocksDB's IOStatus carries a code and a text only, so
// the name is the text's first word: "IO error: active-limit: nvme0n2, zone 7: ...".

#pragma once

#include <cstdint>
#include <string_view>

#include "rocksdb/io_status.h"

namespace zlfs {

enum class DeviceError : std::uint8_t {
  kNone,
  kBadSpec,            // the device specification cannot be understood
  kUnknownOption,      // an option nobody knows
  kMissing,            // no such device or file
  kNotZoned,           // a block device without zones
  kBadImage,           // an emulated device's file that is not one, or of a newer version
  kBusy,               // opened exclusively by someone else
  kPermission,         // the operating system refuses
  kReadOnlyHandle,     // a changing command on a device opened for reading
  kOutOfRange,         // no such zone, or bytes outside a zone's capacity
  kUnaligned,          // offset, length or address is no multiple of the block size
  kNotAtWritePointer,  // a write elsewhere than at the zone's write pointer
  kBoundary,           // a write that would cross the zone's capacity
  kZoneFull,           // a write to a full zone
  kZoneReadOnly,       // the device made the zone read-only
  kZoneOffline,        // the device gave the zone up
  kActiveLimit,        // one active zone too many
  kOpenLimit,          // one open zone too many
  kWrongState,         // a transition the zone's state does not allow
  kNoSpace,            // the device says it is full
  kIo,                 // the device failed the command
};

// The name that starts the message, such as "active-limit".
std::string_view Name(DeviceError error);

// A status that carries the error: busy, invalid argument, no space or IO error.
rocksdb::IOStatus MakeError(DeviceError error, std::string_view detail);

// The error that an errno of the kernel stands for, with the system's words for it.
rocksdb::IOStatus MakeSystemError(int error, std::string_view detail);

// The error that a status of MakeError carries; kNone for any other status.
DeviceError ErrorOf(const rocksdb::IOStatus& status);

}  // namespace zlfs
