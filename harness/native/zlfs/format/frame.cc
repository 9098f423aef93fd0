#include "zlfs/format/frame.h"

#include "zlfs/format/codec.h"
#include "zlfs/zoned/buffer.h"

namespace zlfs {
namespace {

constexpr std::uint32_t kMagic = 0x4d52465a;  // "ZFRM"

}  // namespace

std::size_t FrameSize(std::size_t body, std::size_t block_size) {
  return RoundUp(kFrameHeaderSize + body, block_size);
}

std::string EncodeFrame(FrameHeader header, std::string_view records, std::size_t block_size) {
  std::string frame(FrameSize(records.size(), block_size), '\0');
  char* const at = frame.data();
  records.copy(at + kFrameHeaderSize, records.size());
  StoreFixed(at, kMagic);
  StoreFixed(at + 4, static_cast<std::uint32_t>(header.kind));
  StoreFixed(at + 8, header.generation);
  StoreFixed(at + 16, header.number);
  StoreFixed(at + 24, header.flushed);
  StoreFixed(at + 32, static_cast<std::uint32_t>(records.size()));
  StoreFixed(at + 40, header.previous);
  StoreFixed(at + 48, Checksum(at + kFrameHeaderSize, frame.size() - kFrameHeaderSize));
  StoreFixed(at + kFrameChecksumOffset, Checksum(at, kFrameChecksumOffset));
  return frame;
}

bool DecodeFrameHeader(std::string_view start, FrameHeader* header) {
  const char* const at = start.data();
  if (LoadFixed<std::uint32_t>(at) != kMagic ||
      LoadFixed<std::uint64_t>(at + kFrameChecksumOffset) != Checksum(at, kFrameChecksumOffset)) {
    return false;
  }
  header->kind = static_cast<FrameKind>(LoadFixed<std::uint32_t>(at + 4));
  header->generation = LoadFixed<std::uint64_t>(at + 8);
  header->number = LoadFixed<std::uint64_t>(at + 16);
  header->flushed = LoadFixed<std::uint64_t>(at + 24);
  header->size = LoadFixed<std::uint32_t>(at + 32);
  header->previous = LoadFixed<std::uint64_t>(at + 40);
  header->body_checksum = LoadFixed<std::uint64_t>(at + 48);
  return header->kind <= FrameKind::kSnapshotEnd && LoadFixed<std::uint32_t>(at + 36) == 0;
}

bool FrameBodyIsRight(std::string_view frame, const FrameHeader& header) {
  return Checksum(frame.data() + kFrameHeaderSize, frame.size() - kFrameHeaderSize) ==
         header.body_checksum;
}

}  // namespace zlfs
