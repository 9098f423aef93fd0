#include "zlfs/meta/zone_reader.h"

#include <algorithm>

namespace zlfs {

IOStatus ZoneReader::Get(std::uint64_t offset, std::size_t size, std::string_view* bytes) {
  if (offset < from_ || offset + size > to_) {
    const std::uint64_t block = device_->geometry().block_size;
    from_ = offset / block * block;
    // The write pointer is a multiple of the block size.
    to_ = std::min(limit_, RoundUp(std::max(from_ + kWindow, offset + size), block));
    if (to_ - from_ > capacity_) {
      capacity_ = to_ - from_;
      window_ = AllocateAligned(capacity_);
    }
    const IOStatus status = device_->Read(start_ + from_, to_ - from_, window_.get());
    if (!status.ok()) {
      to_ = from_;
      return status;
    }
  }
  *bytes = std::string_view(window_.get() + (offset - from_), size);
  return IOStatus::OK();
}

}  // namespace zlfs
