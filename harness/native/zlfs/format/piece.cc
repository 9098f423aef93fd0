#include "zlfs/format/piece.h"

#include "zlfs/format/codec.h"

namespace zlfs {
namespace {

constexpr std::uint32_t kMagic = 0x4543505a;  // "ZPCE"

}  // namespace

void EncodePieceHeader(PieceHeader header, char* piece, std::size_t piece_size) {
  StoreFixed(piece, kMagic);
  StoreFixed(piece + 4, header.size);
  StoreFixed(piece + 8, header.file);
  StoreFixed(piece + 16, header.offset);
  StoreFixed(piece + 24, header.generation);
  StoreFixed(piece + 32, header.number);
  StoreFixed(piece + 40, header.previous);
  StoreFixed(piece + 48, Checksum(piece + kPieceHeaderSize, piece_size - kPieceHeaderSize));
  StoreFixed(piece + kPieceChecksumOffset, Checksum(piece, kPieceChecksumOffset));
}

bool DecodePieceHeader(std::string_view start, PieceHeader* header) {
  const char* const at = start.data();
  if (LoadFixed<std::uint32_t>(at) != kMagic ||
      LoadFixed<std::uint64_t>(at + kPieceChecksumOffset) != Checksum(at, kPieceChecksumOffset)) {
    return false;
  }
  *header = {.size = LoadFixed<std::uint32_t>(at + 4),
             .file = LoadFixed<std::uint64_t>(at + 8),
             .offset = LoadFixed<std::uint64_t>(at + 16),
             .generation = LoadFixed<std::uint64_t>(at + 24),
             .number = LoadFixed<std::uint64_t>(at + 32),
             .previous = LoadFixed<std::uint64_t>(at + 40),
             .body_checksum = LoadFixed<std::uint64_t>(at + 48)};
  return true;
}

bool PieceBodyIsRight(std::string_view piece, const PieceHeader& header) {
  return Checksum(piece.data() + kPieceHeaderSize, piece.size() - kPieceHeaderSize) ==
         header.body_checksum;
}

}  // namespace zlfs
