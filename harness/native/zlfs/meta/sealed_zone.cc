#include "zlfs/meta/sealed_zone.h"

#include <algorithm>
#include <utility>

namespace zlfs {

constexpr std::size_t kWindow = 1 << 20;

IOStatus Corrupt(const std::string& name, std::uint32_t zone, std::uint64_t offset,
                 const std::string& what) {
  return IOStatus::Corruption(
      name, "zone " + std::to_string(zone) + " offset " + std::to_string(offset) + ": " + what);
}

IOStatus SealedZone::Get(std::uint64_t offset, std::size_t size, std::string_view* bytes) {
  if (offset < from_ || offset + size > to_) {
    from_ = offset / block_ * block_;
    // The write pointer is a multiple of the block size.
    to_ = std::min(limit_, RoundUp(std::max(from_ + kWindow, offset + size), block_));
    if (to_ - from_ > capacity_) {
      capacity_ = to_ - from_;
      window_ = AllocateAligned(capacity_);
    }
    const std::uint64_t end = std::exchange(to_, from_);  // nothing yet
    RETURN_IF_ERROR(device_->Read(zone_, from_, end - from_, window_.get()));
    to_ = end;
  }
  *bytes = std::string_view(window_.get() + (offset - from_), size);
  return IOStatus::OK();
}

IOStatus SealedZone::Read(std::uint32_t magic, const char* error, std::uint64_t offset,
                          std::uint64_t previous, const Visit& visit) {
  for (std::uint64_t number = 0; offset < limit_;) {
    std::string_view bytes;
    RETURN_IF_ERROR(Get(offset, kHeaderSize, &bytes));
    SealedHeader header;
    if (!ReadHeader(bytes, magic, &header)) {
      return EndsAt(offset) ? IOStatus::OK() : Corrupt(error, zone_, offset, "no header");
    }
    const std::size_t size = SealedSize(header.size, block_);
    if (offset + size > limit_) return Torn(offset, header);
    RETURN_IF_ERROR(Get(offset, size, &bytes));
    if (!ContentIsRight(bytes, header)) {
      return EndsAt(offset + size) ? IOStatus::OK()
                                   : Corrupt(error, zone_, offset, "wrong checksum");
    }
    if (header.number <= number || header.previous != previous) {
      return Corrupt(error, zone_, offset, "out of order");
    }
    RETURN_IF_ERROR(visit(offset, header, bytes.substr(kHeaderSize, header.size)));
    number = header.number;
    previous = header.checksum;
    offset += size;
  }
  return IOStatus::OK();
}

bool SealedZone::EndsAt(std::uint64_t offset) {
  for (std::uint64_t size; finished_ && offset < limit_; offset += size) {
    size = std::min(kWindow, limit_ - offset);
    std::string_view bytes;
    if (!Get(offset, size, &bytes).ok()) return false;
    if (bytes.find_first_not_of('\0') != std::string_view::npos) return false;
  }
  return finished_;
}

// What is torn is the last that was written. If its size is wrong, others follow.
IOStatus SealedZone::Torn(std::uint64_t offset, const SealedHeader& torn) {
  for (std::uint64_t at = offset + block_; at < limit_; at += block_) {
    std::string_view bytes;
    RETURN_IF_ERROR(Get(at, block_, &bytes));
    SealedHeader later;
    if (ReadHeader(bytes, torn.magic, &later) && later.number > torn.number) {
      return Corrupt("corrupt-size", zone_, offset, "others follow");
    }
  }
  return IOStatus::OK();
}

}  // namespace zlfs
