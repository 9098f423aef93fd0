// The 4 KiB blocks of cold data.
//
// On disk, little-endian:
//   offset  0  magic     "ZLCOLD01"
//           8  seed      of the fill
//          16  number    of the block in its file, from 0
//          24  total     number of blocks in the complete fill
//          32  checksum  over the four fields above and the filler
//          40  filler    pseudo-random words, incompressible
//
// The checksum folds the words of the block in order and depends on no other data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace coldfill {

inline constexpr std::size_t kBlockSize = 4096;
inline constexpr std::size_t kBlockWords = kBlockSize / sizeof(std::uint64_t);
inline constexpr std::uint64_t kMagic = 0x313044'4c4f434c5aULL;  // "ZLCOLD01" in little-endian

using Block = std::span<std::uint64_t, kBlockWords>;
using ConstBlock = std::span<const std::uint64_t, kBlockWords>;

// The header of a block whose magic and checksum are correct.
struct Header {
  std::uint64_t seed;
  std::uint64_t number;
  std::uint64_t total;
};

// A buffer of blocks, filled with random words once and stamped with new headers before each write.
// Under software emulation, generating new words takes longer than writing them. The filler
// therefore repeats with every buffer; only the headers differ.
class Pattern {
 public:
  Pattern(std::uint64_t seed, std::uint64_t total, std::span<std::uint64_t> words);

  // Numbers the blocks of the buffer first, first + 1, ...
  void Stamp(std::uint64_t first);

 private:
  std::uint64_t seed_;
  std::uint64_t total_;
  std::span<std::uint64_t> words_;
  std::vector<std::uint64_t> filler_sums_;
};

// Returns the header of an intact block, otherwise nullopt.
std::optional<Header> Check(ConstBlock block);

}  // namespace coldfill
