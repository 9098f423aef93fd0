// Reads a zone from its start to its write pointer through a window of its own.

#pragma once

#include <cstdint>
#include <string_view>

#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

class ZoneReader {
 public:
  // `limit`: the write pointer.
  ZoneReader(ZonedDevice* device, std::uint32_t zone, std::uint64_t limit)
      : device_(device), start_(zone * device->geometry().zone_size), limit_(limit) {}

  std::uint64_t limit() const { return limit_; }
  // Bytes [offset, offset + size) of the zone, offset + size <= limit. Valid until the next call.
  IOStatus Get(std::uint64_t offset, std::size_t size, std::string_view* bytes);

 private:
  static constexpr std::size_t kWindow = 1 << 20;

  ZonedDevice* const device_;
  const std::uint64_t start_;
  const std::uint64_t limit_;
  AlignedBuffer window_;
  std::size_t capacity_ = 0;
  std::uint64_t from_ = 0;  // the window holds [from_, to_)
  std::uint64_t to_ = 0;
};

}  // namespace zlfs
