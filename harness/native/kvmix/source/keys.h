// Keys: how they are numbered, written, spread over the key space, and which of them are live.

#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvmix/source/distribution.h"

namespace kvmix {

// A permutation of [0, 2^bits) and its inverse, different for each seed. Keys that are inserted one
// after another lie anywhere, yet what lies between two keys can be told without an index.
//
// Multiplication by an odd number and x ^= x >> s with 2 s >= bits are both invertible on `bits`
// bits; two rounds of each spread neighbours over the whole space.
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
  std::uint64_t existing = 0;   // keys that are in the database already
  std::uint64_t key_space = 0;  // keys that can ever be inserted
  std::uint64_t key_seed = 0;   // the same in all phases over one database
  bool sequential = false;      // keys ascend as they are inserted
  unsigned slices = 1;          // as many as there are threads
};

// Bits of a position in a slice: half of the positions are of keys, half of keys that never are.
unsigned PositionBits(const KeyOptions& options);

// The part of the key space that belongs to one thread: a contiguous range of key numbers, so that
// no operation, not even on a range, meets a key of another thread. What the database holds after a
// thread's n-th operation therefore does not depend on how threads are scheduled.
//
// Inserted keys have ids 0, 1, 2, … An id's position in the slice is Permutation(2 id), that of
// the absent key with this id Permutation(2 id + 1).
class Slice {
 public:
  Slice(const KeyOptions& options, unsigned index);

  // -- ids ---------------------------------------------------------------------------------------
  [[nodiscard]] bool Full() const { return next_ == capacity_; }
  [[nodiscard]] std::uint64_t Live() const { return live_; }
  std::uint64_t Insert();
  void Delete(std::uint64_t id);
  // A live one; there must be one. Draws again where a dead one is hit: at least half are live.
  std::uint64_t Pick(Chooser* chooser, Random* random);
  // Deletes all ids of the closed range of positions.
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
  // The live id at a position, else kAbsent.
  [[nodiscard]] std::uint64_t LiveAt(std::uint64_t position) const {
    const std::uint64_t x = sequential_ ? position : permutation_.Inverse(position);
    return x % 2 == 0 && IsLive(x / 2) ? x / 2 : kAbsent;
  }
  // The last position of a range that begins at `first` and spans `keys` live keys on average.
  [[nodiscard]] std::uint64_t RangeEnd(std::uint64_t first, std::uint64_t keys) const;

  // -- texts -------------------------------------------------------------------------------------
  // Decimal, with leading zeros up to the key size: texts sort as numbers do.
  void Write(std::uint64_t position, std::string* key) const;
  // Positions from texts; a text of another slice becomes this one's first or last position.
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
  std::vector<std::uint64_t> bits_;  // by id, whether it is live
  // Ids by age, among them dead ones. Empty: all ids below next_, which costs no memory until half
  // of them are dead for the first time.
  std::vector<std::uint64_t> ids_;
};

}  // namespace kvmix
