// The first block of a metadata zone.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "zlfs/alloc/policy.h"
#include "zlfs/zoned/errors.h"

namespace zlfs {

// Version 3 has files with several names, version 4 has two copies of the metadata log. The first
// roll-over of an older volume writes version 4.
inline constexpr std::uint32_t kFormatVersion = 4;
inline constexpr std::uint32_t kOldestVersion = 2;
// Copies of the metadata log use the first zones of the device in turn, except zones that fail.
inline constexpr std::uint32_t kMetadataZones = 3;
// Active zones of the log: its two copies, and during a roll-over one copy of each generation. The
// roll-over of a mount uses all metadata zones if the limit allows it.
inline constexpr std::uint32_t kMetadataActive = 2;
inline constexpr std::size_t kMaxLabel = 31;
inline constexpr std::size_t kSuperblockChecksumOffset = 16;

// On-disk layout. Zeros pad it to a whole block.
struct Superblock {
  std::array<char, 8> magic = {'Z', 'L', 'F', 'S', 'S', 'B', '0', '1'};
  std::uint32_t version = kFormatVersion;  // of the whole format
  std::uint32_t block_size = 0;
  std::uint64_t checksum = 0;        // of the block with this field zero; zero in memory
  std::uint64_t generation = 0;      // incremented by each roll-over
  std::array<char, 16> volume = {};  // random, made by mkfs
  std::uint64_t zone_size = 0;
  std::uint32_t zone_count = 0;
  Policy policy;  // offset 60; its last byte, max_active, was always 0 before it had a meaning
  std::uint16_t identity_size = 0;
  std::array<char, 256> identity_bytes = {};
  std::array<char, 2> zeros = {};
  // At offset 328: the harness recognises its volumes by it.
  std::array<char, kMaxLabel + 1> label_bytes = {};

  std::string identity() const { return {identity_bytes.data(), identity_size}; }
  std::string label() const { return label_bytes.data(); }
  void SetNames(const std::string& identity, const std::string& label);
  bool operator==(const Superblock&) const = default;
};
static_assert(sizeof(Superblock) == 360 && std::has_unique_object_representations_v<Superblock>);

// Returns one block, ready to write.
std::string EncodeSuperblock(const Superblock& superblock);
// `block` must be a whole block. Errors: "wrong-magic", "newer-version",
// "older-version", "corrupt-superblock".
IOStatus DecodeSuperblock(std::string_view block, Superblock* superblock);

}  // namespace zlfs
