// The first block of a metadata zone.
//
//   offset  0  magic         "ZLFSSB01"
//           8  version       u32, of the whole format
//          12  block_size    u32
//          16  checksum      u64, of the block with this field zero
//          24  generation    u64, one higher in each roll-over
//          32  volume        16 random bytes, made by mkfs
//          48  zone_size     u64
//          56  zone_count    u32
//          60  finish_remaining_pct, finish_occupancy_pct, gc_start_pct, on_active_limit,
//              gc_victim, gc, lifetimes: u8 each
//          68  identity      u16 length, then that many bytes (at most 256)
//         328  label         at most 31 bytes, zeros up to 360: the harness finds its own by it
//
// Whatever is not mentioned is zero.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "rocksdb/io_status.h"
#include "zlfs/alloc/policy.h"

namespace zlfs {

inline constexpr std::uint32_t kFormatVersion = 1;
// Zones of the metadata log: the first ones of the device.
inline constexpr std::uint32_t kMetadataZones = 2;
inline constexpr std::size_t kMaxLabel = 31;
inline constexpr std::size_t kSuperblockChecksumOffset = 16;

struct Superblock {
  std::uint32_t block_size = 0;
  std::uint64_t generation = 0;
  std::array<char, 16> volume{};
  std::uint64_t zone_size = 0;
  std::uint32_t zone_count = 0;
  Policy policy;
  std::string identity;
  std::string label;

  bool operator==(const Superblock&) const = default;
};

// One block, ready to be written.
std::string EncodeSuperblock(const Superblock& superblock);
// `block` is a whole block. Errors: "wrong-magic", "newer-version", "corrupt-superblock".
rocksdb::IOStatus DecodeSuperblock(std::string_view block, Superblock* superblock);

}  // namespace zlfs
