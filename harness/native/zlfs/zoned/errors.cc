#include "zlfs/zoned/errors.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace zlfs {
namespace {

using rocksdb::IOStatus;
using rocksdb::Slice;

// Everything else is kIo.
constexpr std::pair<int, DeviceError::Name> kErrnos[] = {
    {EOVERFLOW, DeviceError::kActiveLimit},   // of Linux' block layer
    {ETOOMANYREFS, DeviceError::kOpenLimit},  // this one, too
    {ENOSPC, DeviceError::kNoSpace},
    {EFBIG, DeviceError::kNoSpace},
    {EBUSY, DeviceError::kBusy},
    {EWOULDBLOCK, DeviceError::kBusy},
    {EPERM, DeviceError::kPermission},
    {EACCES, DeviceError::kPermission},
    {EROFS, DeviceError::kPermission},
    {ENOENT, DeviceError::kMissing},
    {ENOTDIR, DeviceError::kMissing},
    {ENODEV, DeviceError::kMissing},
    {ENXIO, DeviceError::kMissing}};

}  // namespace

IOStatus MakeError(DeviceError::Name error, std::string_view detail) {
  const Slice name(error.data(), error.size());
  const Slice text(detail.data(), detail.size());
  if (error == DeviceError::kBusy) return IOStatus::Busy(name, text);
  if (error == DeviceError::kNoSpace) return IOStatus::NoSpace(name, text);
  const bool asked = error == DeviceError::kBadSpec || error == DeviceError::kNotZoned;
  return asked ? IOStatus::InvalidArgument(name, text) : IOStatus::IOError(name, text);
}

IOStatus MakeSystemError(int error, std::string_view detail) {
  DeviceError::Name name = DeviceError::kIo;
  for (const auto& [number, known] : kErrnos) {
    if (number == error) name = known;
  }
  return MakeError(name, std::string(detail) + ": " + std::strerror(error));
}

}  // namespace zlfs
