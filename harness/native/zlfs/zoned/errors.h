// Names of device errors. RocksDB's IOStatus has only a code and a text, so the name is the first
// word of the text: "IO error: active-limit: nvme0n2, zone 7: ...".

#pragma once

#include <string_view>

#include "rocksdb/io_status.h"

namespace zlfs {

using rocksdb::IOStatus;

struct DeviceError {
  using Name = std::string_view;
  static constexpr Name kBadSpec = "bad-spec";                 // malformed device specification
  static constexpr Name kMissing = "missing";                  // no such device or file
  static constexpr Name kNotZoned = "not-zoned";               // a block device without zones
  static constexpr Name kBadImage = "bad-image";               // damaged, newer or not an image
  static constexpr Name kBusy = "busy";                        // in exclusive use elsewhere
  static constexpr Name kPermission = "permission";            // denied by the operating system
  static constexpr Name kReadOnlyHandle = "read-only-handle";  // a change on a read-only handle
  static constexpr Name kOutOfRange = "out-of-range";  // no such zone, or outside its capacity
  static constexpr Name kUnaligned = "unaligned";      // not a multiple of the block size
  static constexpr Name kNotAtWritePointer = "not-at-write-pointer";  // a write at another offset
  static constexpr Name kBoundary = "boundary";            // a write beyond the zone capacity
  static constexpr Name kZoneFull = "zone-full";           // a write to a full zone
  static constexpr Name kZoneReadOnly = "zone-read-only";  // the device set the zone to read-only
  static constexpr Name kZoneOffline = "zone-offline";     // the device set the zone to offline
  static constexpr Name kActiveLimit = "active-limit";     // too many active zones
  static constexpr Name kOpenLimit = "open-limit";         // too many open zones
  static constexpr Name kWrongState = "wrong-state";       // invalid transition of the zone's state
  static constexpr Name kNoSpace = "no-space";             // the device reports that it is full
  static constexpr Name kIo = "io";                        // the device failed the command
};

// Returns from the function with the expression's status if it is not ok.
#define RETURN_IF_ERROR(expression)                                  \
  do {                                                               \
    if (IOStatus not_ok = (expression); !not_ok.ok()) return not_ok; \
  } while (false)

// Creates a status for the error: busy, invalid argument, no space or IO error.
IOStatus MakeError(DeviceError::Name error, std::string_view detail);

// Whether the status is the error with this name.
bool IsNamed(const IOStatus& status, DeviceError::Name error);

// Creates a status for an errno value, with the system's error text.
IOStatus MakeSystemError(int error, std::string_view detail);

}  // namespace zlfs
