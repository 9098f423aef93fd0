#include "zlfs/zoned/errors.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace zlfs {
namespace {

using rocksdb::IOStatus;
using rocksdb::Slice;

struct Errno {
  int number;
  DeviceError::Name error;
};
// Everything else is kIo.
constexpr Errno kErrnos[] = {{EOVERFLOW, DeviceError::kActiveLimit},   // of Linux' block layer
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
  for (const Errno& known : kErrnos) {
    if (known.number == error) name = known.error;
  }
  return MakeError(name, std::string(detail) + ": " + std::strerror(error));
}

}  // namespace zlfs
