#include "zlfs/zoned/errors.h"

#include <array>
#include <cstddef>

namespace zlfs {
namespace {

using rocksdb::IOStatus;
using rocksdb::Slice;

// In the order of DeviceError.
constexpr std::array kNames = {
    std::string_view(""),
    std::string_view("bad-spec"),
    std::string_view("unknown-option"),
    std::string_view("missing"),
    std::string_view("not-zoned"),
    std::string_view("bad-image"),
    std::string_view("busy"),
    std::string_view("permission"),
    std::string_view("read-only-handle"),
    std::string_view("out-of-range"),
    std::string_view("unaligned"),
    std::string_view("not-at-write-pointer"),
    std::string_view("boundary"),
    std::string_view("zone-full"),
    std::string_view("zone-read-only"),
    std::string_view("zone-offline"),
    std::string_view("active-limit"),
    std::string_view("open-limit"),
    std::string_view("wrong-state"),
    std::string_view("no-space"),
    std::string_view("io"),
};
static_assert(kNames.size() == static_cast<std::size_t>(DeviceError::kIo) + 1);

}  // namespace

std::string_view Name(DeviceError error) { return kNames[static_cast<std::size_t>(error)]; }

IOStatus MakeError(DeviceError error, std::string_view detail) {
  const Slice name(Name(error).data(), Name(error).size());
  const Slice text(detail.data(), detail.size());
  switch (error) {
    case DeviceError::kBadSpec:
    case DeviceError::kUnknownOption:
    case DeviceError::kNotZoned:
    case DeviceError::kOutOfRange:
    case DeviceError::kUnaligned:
      return IOStatus::InvalidArgument(name, text);
    case DeviceError::kMissing:
      return IOStatus::PathNotFound(name, text);
    case DeviceError::kBadImage:
      return IOStatus::Corruption(name, text);
    case DeviceError::kBusy:
      return IOStatus::Busy(name, text);
    case DeviceError::kReadOnlyHandle:
      return IOStatus::NotSupported(name, text);
    case DeviceError::kNoSpace:
      return IOStatus::NoSpace(name, text);
    default:
      return IOStatus::IOError(name, text);
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
