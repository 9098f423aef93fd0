// Reads a zone of sealed blocks up to its write pointer, through a window of its own.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "zlfs/format/sealed.h"
#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

IOStatus Corrupt(const std::string& name, std::uint32_t zone, std::uint64_t offset,
                 const std::string& what);

class SealedZone {
 public:
  SealedZone(ZonedDevice* device, std::uint32_t zone, const ZoneInfo& info)
      : device_(device),
        zone_(zone),
        block_(device->geometry().block_size),
        limit_(info.write_pointer),
        finished_(info.condition == ZoneCondition::kFull) {}

  // Bytes [offset, offset + size) of the zone, below the write pointer. Valid until the next call.
  IOStatus Get(std::uint64_t offset, std::size_t size, std::string_view* bytes);

  // Calls `visit` for each that is whole, from `offset` on; `previous` is what the first one has to
  // vouch for. Errors: those of `visit`, "corrupt-size", `error`.
  using Visit = std::function<IOStatus(std::uint64_t offset, const SealedHeader& header,
                                       std::string_view content)>;
  IOStatus Read(std::uint32_t magic, const char* error, std::uint64_t offset,
                std::uint64_t previous, const Visit& visit);

 private:
  // A mount that finds too many active zones finishes some; if it dies before its roll-over, these
  // end in torn blocks, and zeros.
  bool EndsAt(std::uint64_t offset);
  IOStatus Torn(std::uint64_t offset, const SealedHeader& torn);

  ZonedDevice* const device_;
  const std::uint32_t zone_;
  const std::uint64_t block_;
  const std::uint64_t limit_;
  const bool finished_;
  AlignedBuffer window_;
  std::size_t capacity_ = 0;
  std::uint64_t from_ = 0;  // the window holds [from_, to_)
  std::uint64_t to_ = 0;
};

}  // namespace zlfs
