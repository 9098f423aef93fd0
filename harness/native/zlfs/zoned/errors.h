// Names of what can go wrong with a device. RocksDB's IOStatus carries a code and a text only, so
// the name is the text's first word: "IO error: active-limit: nvme0n2, zone 7: ...".

#pragma once

#include <string_view>

#include "rocksdb/io_status.h"

namespace zlfs {

using rocksdb::IOStatus;

struct DeviceError {
  using Name = std::string_view;
  static constexpr Name kBadSpec = "bad-spec";    // the device specification cannot be understood
  static constexpr Name kMissing = "missing";     // no such device or file
  static constexpr Name kNotZoned = "not-zoned";  // a block device without zones
  static constexpr Name kBadImage = "bad-image";  // no emulated device, or a newer one
  static constexpr Name kBusy = "busy";           // opened exclusively by someone else
  static constexpr Name kPermission = "permission";            // the operating system refuses
  static constexpr Name kReadOnlyHandle = "read-only-handle";  // a change, but opened for reading
  static constexpr Name kOutOfRange = "out-of-range";  // no such zone, or outside its capacity
  static constexpr Name kUnaligned = "unaligned";      // no multiple of the block size
  static constexpr Name kNotAtWritePointer = "not-at-write-pointer";  // a write elsewhere
  static constexpr Name kBoundary = "boundary";            // a write that would cross the capacity
  static constexpr Name kZoneFull = "zone-full";           // a write to a full zone
  static constexpr Name kZoneReadOnly = "zone-read-only";  // the device made the zone read-only
  static constexpr Name kZoneOffline = "zone-offline";     // the device gave the zone up
  static constexpr Name kActiveLimit = "active-limit";     // one active zone too many
  static constexpr Name kOpenLimit = "open-limit";         // one open zone too many
  static constexpr Name kWrongState = "wrong-state";  // a transition that the state does not allow
  static constexpr Name kNoSpace = "no-space";        // the device says it is full
  static constexpr Name kIo = "io";                   // the device failed the command
};

// Leaves the function with the expression's status unless that is ok.
#define RETURN_IF_ERROR(expression)                                  \
  do {                                                               \
    if (IOStatus not_ok = (expression); !not_ok.ok()) return not_ok; \
  } while (false)

// A status that carries the error: busy, invalid argument, no space or IO error.
IOStatus MakeError(DeviceError::Name error, std::string_view detail);

// The error that an errno of the kernel stands for, with the system's words for it.
IOStatus MakeSystemError(int error, std::string_view detail);

}  // namespace zlfs
