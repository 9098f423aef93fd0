// Keys: their numbers, their text form, their spread over the key space, and which are live.

#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvmix/source/distribution.h"

namespace kvmix {

// A permutation of [0, 2^bits) and its inverse, different for each seed. It scatters consecutive
// keys over the key space. The inverse finds the keys between two others without an index.
//
// Multiplication by an odd number and x ^= x >> s with 2 s >= bits are both invertible on `bits`
// bits. A few rounds of both spread neighbours over the whole space.
class Permutation {
 public:
  Permutation(unsigned bits, std::uint64_t seed);

  [[nodiscard]] std::uint64_t operator()(std::uint64_t x) const {
    for (int round = 0; round < kRounds; ++round) {
      x = (x * factors_[round]) & mask_;
      x ^= x >> shift_;
    }
    return x;
  }
  [[nodiscard]] std::uint64_t Inverse(std::uint64_t x) const {
    for (int round = kRounds - 1; round >= 0; --round) {
      x ^= x >> shift_;
      x = (x * inverses_[round]) & mask_;
    }
    return x;
  }

 private:
  static constexpr int kRounds = 3;
  std::uint64_t mask_;
  unsigned shift_;
  std::uint64_t factors_[kRounds];
  std::uint64_t inverses_[kRounds];
};

struct KeyOptions {
  unsigned key_size = 16;       // bytes
  std::uint64_t existing = 0;   // keys already in the database
  std::uint64_t key_space = 0;  // maximum number of keys ever inserted
  std::uint64_t key_seed = 0;   // the same in all phases over one database
  bool sequential = false;      // insert keys in ascending order
  unsigned slices = 1;          // number of threads
};

// Bits of a position in a slice. Half of the positions are for keys, half for keys that are never
// inserted.
unsigned PositionBits(const KeyOptions& options);

// One thread's part of the key space: a contiguous range of key numbers. No operation, not even on
// a range, touches a key of another thread. The slice's contents after the thread's n-th operation
// therefore do not depend on thread scheduling.
//
// Inserted keys have the ids 0, 1, 2, … The key with id i is at position Permutation(2 i). The
// absent key with id i is at position Permutation(2 i + 1).
class Slice {
 public:
  Slice(const KeyOptions& options, unsigned index);

  // -- ids ---------------------------------------------------------------------------------------
  [[nodiscard]] bool Full() const { return next_ == capacity_; }
  [[nodiscard]] std::uint64_t Live() const { return live_; }
  std::uint64_t Insert();
  void Delete(std::uint64_t id);
  // Returns a live id; at least one must exist. Repeats the draw if it hits a dead id. At least
  // half of the ids are live, except in small slices.
  std::uint64_t Pick(Chooser* chooser, Random* random);
  // Deletes all ids in the closed range of positions.
  void DeleteRange(std::uint64_t first, std::uint64_t last);
  [[nodiscard]] bool IsLive(std::uint64_t id) const {
    return id < next_ && (bits_[id / 64] >> (id % 64) & 1) != 0;
  }
  [[nodiscard]] std::uint64_t Capacity() const { return capacity_; }

  // -- positions, in the order of keys -----------------------------------------------------------
  static constexpr std::uint64_t kAbsent = ~std::uint64_t{0};
  [[nodiscard]] std::uint64_t Positions() const { return positions_; }
  [[nodiscard]] std::uint64_t Position(std::uint64_t id) const { return At(2 * id); }
  [[nodiscard]] std::uint64_t AbsentPosition(std::uint64_t id) const { return At(2 * id + 1); }
  // Returns the live id at a position, or kAbsent.
  [[nodiscard]] std::uint64_t LiveAt(std::uint64_t position) const {
    const std::uint64_t x = sequential_ ? position : permutation_.Inverse(position);
    return x % 2 == 0 && IsLive(x / 2) ? x / 2 : kAbsent;
  }
  // Returns the last position of a range that starts at `first` and holds `keys` live keys on
  // average.
  [[nodiscard]] std::uint64_t RangeEnd(std::uint64_t first, std::uint64_t keys) const;

  // -- texts -------------------------------------------------------------------------------------
  // Writes a decimal number with leading zeros up to the key size, so that keys sort like numbers.
  void Write(std::uint64_t position, std::string* key) const;
  // Converts a key to its position. A key of another slice gives the first or last position.
  [[nodiscard]] std::uint64_t Read(std::string_view key) const;

 private:
  [[nodiscard]] std::uint64_t At(std::uint64_t x) const {
    return sequential_ ? x : permutation_(x);
  }
  [[nodiscard]] std::uint64_t Slots() const { return ids_.empty() ? next_ : ids_.size(); }
  void Compact();

  unsigned key_size_;
  bool sequential_;
  std::uint64_t positions_;
  std::uint64_t capacity_;
  std::uint64_t base_;  // number of the slice's first position
  Permutation permutation_;
  std::uint64_t next_;
  std::uint64_t live_;
  std::vector<std::uint64_t> bits_;  // one bit per id: 1 if it is live
  // Ids by age, including some dead ones. Empty stands for all ids below next_: the list takes no
  // memory until half of the ids are dead.
  std::vector<std::uint64_t> ids_;
};

}  // namespace kvmix
