#include "zlfs/format/sealed.h"

#include <cstddef>
#include <cstring>

#include "zlfs/format/codec.h"

namespace zlfs {
namespace {

std::uint64_t OwnChecksum(const SealedHeader& header) {
  return Checksum({reinterpret_cast<const char*>(&header), offsetof(SealedHeader, checksum)});
}

}  // namespace

std::uint64_t Seal(SealedHeader header, char* blocks, std::size_t size) {
  const std::size_t used = kHeaderSize + header.size;
  std::memset(blocks + used, 0, size - used);
  header.content_checksum = Checksum({blocks + kHeaderSize, size - kHeaderSize});
  header.checksum = OwnChecksum(header);
  std::memcpy(blocks, &header, kHeaderSize);
  return header.checksum;
}

bool ReadHeader(std::string_view start, std::uint32_t magic, SealedHeader* header) {
  std::memcpy(header, start.data(), kHeaderSize);
  return header->magic == magic && header->checksum == OwnChecksum(*header);
}

bool ContentIsRight(std::string_view blocks, const SealedHeader& header) {
  return Checksum(blocks.substr(kHeaderSize)) == header.content_checksum;
}

}  // namespace zlfs
