// Sealed blocks: checksummed blocks with a header. A frame carries records of the metadata log. A
// piece carries content, and its header names the file. WALs are written in pieces, so a sync needs
// no metadata record. Saved tails and allocation traces are sealed blocks, too.
//
//   offset  0  magic             u32: "ZFRM" frame, "ZPCE" piece
//           4  size              u32, bytes of content
//           8  subject           u64: a frame's kind, a piece's file id
//          16  position          u64: number of the last frame known to be flushed; offset of a
//                                piece's content in the file
//          24  generation        u64, of the metadata when it was written
//          32  number            u64, rising; without gaps for the frames of a generation
//          40  previous          u64, header checksum of the one before in this zone. Of a first
//                                frame the superblock's checksum, of a first piece 0
//          48  content checksum  u64, of the content and the padding
//          56  checksum          u64, of the 56 bytes above
//          64  content, then zeros up to a whole block
//
// `previous` chains the headers of a zone: a block that was changed together with its checksum does
// not match the next one. The header has its own checksum, which distinguishes torn blocks (the
// write pointer lies within them) from corrupt ones.

#pragma once

#include <cstdint>
#include <string_view>

#include "zlfs/zoned/buffer.h"

namespace zlfs {

struct SealedHeader {
  std::uint32_t magic = 0;
  std::uint32_t size = 0;
  std::uint64_t subject = 0;
  std::uint64_t position = 0;
  std::uint64_t generation = 0;
  std::uint64_t number = 0;
  std::uint64_t previous = 0;
  std::uint64_t content_checksum = 0;
  std::uint64_t checksum = 0;
};
inline constexpr std::size_t kHeaderSize = 64;
static_assert(sizeof(SealedHeader) == kHeaderSize);

inline constexpr std::uint32_t kFrameMagic = 0x4d52465a;
inline constexpr std::uint32_t kPieceMagic = 0x4543505a;

// Kind of a frame: changes, a part of the state at the start of the generation, or the last part.
// kSuperseded marks a generation that a newer one replaced, if its zone could not be reset.
enum class FrameKind : std::uint64_t { kRecords, kSnapshot, kSnapshotEnd, kSuperseded };
// A snapshot is split into frames of about this many bytes of records. A single larger record makes
// a larger frame, because a record takes effect as a whole.
inline constexpr std::size_t kFrameContent = 256 << 10;

// Size in whole blocks of a sealed block with this much content.
constexpr std::size_t SealedSize(std::size_t content, std::size_t block_size) {
  return RoundUp(kHeaderSize + content, block_size);
}
// Writes the header in front of the content. `blocks` holds space for the header, then header.size
// bytes of content. Pads with zeros, computes both checksums and returns the header's checksum.
std::uint64_t Seal(SealedHeader header, char* blocks, std::size_t size);
// `start` must have at least kHeaderSize bytes. Returns false if the header is not valid.
bool ReadHeader(std::string_view start, std::uint32_t magic, SealedHeader* header);
// `blocks` must be whole blocks, and `header` must have been read from them.
bool ContentIsRight(std::string_view blocks, const SealedHeader& header);

}  // namespace zlfs
