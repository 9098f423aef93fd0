// Frames: what the metadata log consists of behind the superblock.
//
//   offset  0  magic            u32 "ZFRM"
//           4  kind             u32: 0 records, 1 snapshot, 2 last frame of the snapshot
//           8  generation       u64, as in the superblock of the zone
//          16  number           u64, without gaps over all generations
//          24  flushed          u64, number of the last frame known to be flushed
//          32  size             u32, bytes of records
//          36  zero             u32
//          40  previous         u64, header checksum of the frame before, or the superblock's
//          48  body checksum    u64, of the records and the padding
//          56  header checksum  u64, of the 56 bytes above
//          64  records, then zeros up to a whole block
//
// Each frame vouches for what lies before it: what was changed together with its own checksum does
// not fit what follows.
//
// The header has a checksum of its own so that a torn frame (the write pointer lies within it) can
// be told from a corrupt one.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zlfs {

enum class FrameKind : std::uint32_t { kRecords, kSnapshot, kSnapshotEnd };

struct FrameHeader {
  FrameKind kind = FrameKind::kRecords;
  std::uint64_t generation = 0;
  std::uint64_t number = 0;
  std::uint64_t flushed = 0;
  std::uint32_t size = 0;
  std::uint64_t previous = 0;
  std::uint64_t body_checksum = 0;
};

inline constexpr std::size_t kFrameHeaderSize = 64;
inline constexpr std::size_t kFrameChecksumOffset = 56;  // of the header
// A snapshot is cut into frames of about this many bytes of records. A frame is larger when a
// single record is: what one record says takes effect as a whole.
inline constexpr std::size_t kFrameBody = 256 << 10;

std::size_t FrameSize(std::size_t body, std::size_t block_size);
// Whole blocks. header.size and header.body_checksum are filled in.
std::string EncodeFrame(FrameHeader header, std::string_view records, std::size_t block_size);
// `start` begins with at least kFrameHeaderSize bytes. False: this is no frame header.
bool DecodeFrameHeader(std::string_view start, FrameHeader* header);
// `frame` is whole, its header was decoded.
bool FrameBodyIsRight(std::string_view frame, const FrameHeader& header);

}  // namespace zlfs
