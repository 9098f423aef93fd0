#include "zlfs/zoned/errors.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

namespace zlfs {
namespace {

using rocksdb::IOStatus;
using rocksdb::Slice;

// In the order of DeviceError.
constexpr std::array<std::string_view, static_cast<std::size_t>(DeviceError::kIo) + 1> kNames = {
    "",
    "bad-spec",
    "unknown-option",
    "missing",
    "not-zoned",
    "bad-image",
    "busy",
    "permission",
    "read-only-handle",
    "out-of-range",
    "unaligned",
    "not-at-write-pointer",
    "boundary",
    "zone-full",
    "zone-read-only",
    "zone-offline",
    "active-limit",
    "open-limit",
    "wrong-state",
    "no-space",
    "io"};
static_assert(kNames.back() == "io");

}  // namespace

std::string_view Name(DeviceError error) { return kNames[static_cast<std::size_t>(error)]; }

IOStatus MakeError(DeviceError error, std::string_view detail) {
  const Slice name(Name(error).data(), Name(error).size());
  const Slice text(detail.data(), detail.size());
  switch (error) {
    case DeviceError::kBadSpec:
    case DeviceError::kUnknownOption:
    case DeviceError::kNotZoned:
      return IOStatus::InvalidArgument(name, text);
    case DeviceError::kBusy:
      return IOStatus::Busy(name, text);
    case DeviceError::kNoSpace:
      return IOStatus::NoSpace(name, text);
    default:
      return IOStatus::IOError(name, text);
  }
}

IOStatus MakeSystemError(int error, std::string_view detail) {
  const auto named = [&](DeviceError name) {
    return MakeError(name, std::string(detail) + ": " + std::strerror(error));
  };
  switch (error) {
    case EOVERFLOW:  // BLK_STS_ZONE_ACTIVE_RESOURCE
      return named(DeviceError::kActiveLimit);
    case ETOOMANYREFS:  // BLK_STS_ZONE_OPEN_RESOURCE
      return named(DeviceError::kOpenLimit);
    case ENOSPC:
    case EFBIG:
      return named(DeviceError::kNoSpace);
    case EBUSY:
    case EWOULDBLOCK:
      return named(DeviceError::kBusy);
    case EPERM:
    case EACCES:
    case EROFS:
      return named(DeviceError::kPermission);
    case ENOENT:
    case ENOTDIR:
    case ENODEV:
    case ENXIO:
      return named(DeviceError::kMissing);
    default:
      return named(DeviceError::kIo);
  }
}

DeviceError ErrorOf(const IOStatus& status) {
  if (status.ok() || status.getState() == nullptr) return DeviceError::kNone;
  const std::string_view text(status.getState());
  const std::string_view first = text.substr(0, text.find(':'));
  for (std::size_t i = 1; i < kNames.size(); ++i) {
    if (kNames[i] == first) return static_cast<DeviceError>(i);
  }
  return DeviceError::kNone;
}

}  // namespace zlfs
