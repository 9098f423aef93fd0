// Pieces: content that says itself which file it belongs to. WALs are written in pieces, so that a
// sync needs no metadata record.
//
//   offset  0  magic            u32 "ZPCE"
//           4  size             u32, bytes of content
//           8  file             u64, id
//          16  offset           u64, of the content in the file
//          24  generation       u64, of the metadata when it was written
//          32  number           u64, rises from piece to piece
//          40  previous         u64, header checksum of the piece before in this zone, or 0
//          48  body checksum    u64, of the content and the padding
//          56  header checksum  u64, of the 56 bytes above
//          64  content, then zeros up to a whole block

#pragma once

#include <cstdint>
#include <string_view>

namespace zlfs {

struct PieceHeader {
  std::uint32_t size = 0;
  std::uint64_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t generation = 0;
  std::uint64_t number = 0;
  std::uint64_t previous = 0;
  std::uint64_t body_checksum = 0;
};

inline constexpr std::size_t kPieceHeaderSize = 64;
inline constexpr std::size_t kPieceChecksumOffset = 56;  // of the header

// Writes the header into the first bytes of `piece`: a buffer of whole blocks that already holds
// the content behind the header, and zeros behind the content.
void EncodePieceHeader(PieceHeader header, char* piece, std::size_t piece_size);
bool DecodePieceHeader(std::string_view start, PieceHeader* header);
bool PieceBodyIsRight(std::string_view piece, const PieceHeader& header);

}  // namespace zlfs
