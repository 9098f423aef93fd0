// The 4 KiB blocks that cold data consists of.
//
// On disk, little-endian:
//   offset  0  magic     "ZLCOLD01"
//           8  seed      of the fill
//          16  number    of the block in its file, from 0
//          24  total     number of blocks the fill was asked for
//          32  checksum  over the four fields above and the filler
//          40  filler    pseudo-random words, incompressible
//
// The checksum is folded over the words in order, so it needs nothing but the block itself.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace coldfill {

inline constexpr std::size_t kBlockSize = 4096;
inline constexpr std::size_t kBlockWords = kBlockSize / sizeof(std::uint64_t);
inline constexpr std::uint64_t kMagic = 0x313044'4c4f434c5aULL;  // "ZLCOLD01" read as little-endian

using Block = std::span<std::uint64_t, kBlockWords>;
using ConstBlock = std::span<const std::uint64_t, kBlockWords>;

// What a block says of itself once its magic and checksum are right.
struct Header {
  std::uint64_t seed;
  std::uint64_t number;
  std::uint64_t total;
};

// A run of blocks that is filled with random words once and stamped anew for each write: under
// software emulation generating fresh words would take longer than writing them. Blocks therefore
// repeat their filler every `blocks` blocks and differ in their headers.
class Pattern {
 public:
  Pattern(std::uint64_t seed, std::uint64_t total, std::span<std::uint64_t> words);

  // Gives the blocks of the buffer the numbers first, first + 1, ...
  void Stamp(std::uint64_t first);

 private:
  std::uint64_t seed_;
  std::uint64_t total_;
  std::span<std::uint64_t> words_;
  std::vector<std::uint64_t> filler_sums_;
};

// Returns the header of a block that is whole, nothing otherwise.
std::optional<Header> Check(ConstBlock block);

}  // namespace coldfill
