#include "coldfill/block.h"

#include <bit>

namespace coldfill {
namespace {

static_assert(std::endian::native == std::endian::little, "blocks are stored little-endian");

enum Word : std::size_t { kMagicAt, kSeedAt, kNumberAt, kTotalAt, kChecksumAt, kFillerAt };

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t Mix(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31);
}

std::uint64_t Fold(std::uint64_t sum, std::uint64_t word) {
  return std::rotl(sum ^ word, 29) * 0x9e3779b97f4a7c15ULL;
}

std::uint64_t FillerSum(ConstBlock block) {
  std::uint64_t sum = kMagic;
  for (const std::uint64_t word : block.subspan(kFillerAt)) sum = Fold(sum, word);
  return sum;
}

std::uint64_t Checksum(const Header& header, std::uint64_t filler_sum) {
  return Mix(Fold(Fold(Fold(filler_sum, header.seed), header.number), header.total));
}

}  // namespace

Pattern::Pattern(std::uint64_t seed, std::uint64_t total, std::span<std::uint64_t> words)
    : seed_(seed), total_(total), words_(words) {
  std::uint64_t state = seed;
  for (std::uint64_t& word : words_) word = Mix(state += 0x9e3779b97f4a7c15ULL);
  for (std::size_t at = 0; at + kBlockWords <= words_.size(); at += kBlockWords) {
    filler_sums_.push_back(FillerSum(words_.subspan(at).first<kBlockWords>()));
  }
}

void Pattern::Stamp(std::uint64_t first) {
  for (std::size_t i = 0; i < filler_sums_.size(); ++i) {
    const Block block = words_.subspan(i * kBlockWords).first<kBlockWords>();
    const Header header{.seed = seed_, .number = first + i, .total = total_};
    block[kMagicAt] = kMagic;
    block[kSeedAt] = header.seed;
    block[kNumberAt] = header.number;
    block[kTotalAt] = header.total;
    block[kChecksumAt] = Checksum(header, filler_sums_[i]);
  }
}

std::optional<Header> Check(ConstBlock block) {
  const Header header{.seed = block[kSeedAt], .number = block[kNumberAt], .total = block[kTotalAt]};
  if (block[kMagicAt] != kMagic) return std::nullopt;
  if (block[kChecksumAt] != Checksum(header, FillerSum(block))) return std::nullopt;
  return header;
}

}  // namespace coldfill
