// Reads a zone of sealed blocks up to its write pointer, through a window of its own.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "zlfs/format/sealed.h"
#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

inline IOStatus Corrupt(const std::string& name, std::uint32_t zone, std::uint64_t offset,
                        const std::string& what) {
  return IOStatus::Corruption(
      name, "zone " + std::to_string(zone) + " offset " + std::to_string(offset) + ": " + what);
}

class SealedZone {
 public:
  SealedZone(ZonedDevice* device, std::uint32_t zone, const ZoneInfo& info)
      : device_(device),
        zone_(zone),
        block_(device->geometry().block_size),
        limit_(info.write_pointer),
        finished_(info.condition == ZoneCondition::kFull) {}

  // Bytes [offset, offset + size) of the zone, below the write pointer. Valid until the next call.
  IOStatus Get(std::uint64_t offset, std::size_t size, std::string_view* bytes) {
    if (offset < from_ || offset + size > to_) {
      from_ = to_ = offset / block_ * block_;  // nothing yet
      // The write pointer is a multiple of the block size.
      const std::uint64_t end =
          std::min(limit_, RoundUp(std::max(from_ + kWindow, offset + size), block_));
      window_ = AllocateAligned(end - from_);
      RETURN_IF_ERROR(device_->Read(zone_, from_, end - from_, window_.get()));
      to_ = end;
    }
    *bytes = std::string_view(window_.get() + (offset - from_), size);
    return IOStatus::OK();
  }

  // Calls `visit` for each that is whole, from `offset` on; `previous` is what the first one has to
  // vouch for. Errors: those of `visit`, "corrupt-size", `error`.
  using Visit = std::function<IOStatus(std::uint64_t offset, const SealedHeader& header,
                                       std::string_view content)>;
  IOStatus Read(std::uint32_t magic, const char* error, std::uint64_t offset,
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

 private:
  static constexpr std::size_t kWindow = 1 << 20;

  // A mount that finds too many active zones finishes some; if it dies before its roll-over, these
  // end in torn blocks, and zeros.
  bool EndsAt(std::uint64_t offset) {
    for (std::uint64_t size; finished_ && offset < limit_; offset += size) {
      size = std::min(kWindow, limit_ - offset);
      std::string_view bytes;
      if (!Get(offset, size, &bytes).ok()) return false;
      if (bytes.find_first_not_of('\0') != std::string_view::npos) return false;
    }
    return finished_;
  }

  // What is torn is the last that was written. If its size is wrong, others follow.
  IOStatus Torn(std::uint64_t offset, const SealedHeader& torn) {
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

  ZonedDevice* const device_;
  const std::uint32_t zone_;
  const std::uint64_t block_;
  const std::uint64_t limit_;
  const bool finished_;
  AlignedBuffer window_;
  std::uint64_t from_ = 0;  // the window holds [from_, to_)
  std::uint64_t to_ = 0;
};

}  // namespace zlfs
