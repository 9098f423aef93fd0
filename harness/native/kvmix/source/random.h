// Pseudo-random numbers that are identical on every machine and with every standard library.

#pragma once

#include <bit>
#include <cstdint>

namespace kvmix {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every input bit affects every output bit.
constexpr std::uint64_t Mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Streams of random numbers; each thread has its own.
enum Stream : std::uint64_t { kOperations, kArrivals, kStreams };

// xoshiro256++ (Blackman, Vigna 2019), seeded with SplitMix64. Each thread and purpose has its own
// generator, so that draws from one do not change the sequence of another.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) {
    std::uint64_t x = Mix64(seed) ^ Mix64(~stream);
    for (std::uint64_t& word : state_) word = x = Mix64(x);
  }

  std::uint64_t Next() {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, n), n > 0. The bias is less than n / 2^64 (Lemire 2019, without rejection).
  std::uint64_t Below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64);
  }

  // Uniform in [0, 1), in steps of 2^-53.
  double Share() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_[4];
};

}  // namespace kvmix
