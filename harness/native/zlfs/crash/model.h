// What a torture load does, as a function of its seed: operation i of a writer in a round is always
// the same, so that whoever knows how many operations took place knows every key and every value.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zlfs::crash {

inline constexpr std::uint32_t kMaxWriters = 4;

struct LoadShape {
  std::uint64_t seed = 1;
  std::uint32_t writers = 2;  // at most kMaxWriters
  std::uint32_t families = 3;
  std::uint32_t keys = 800;         // of each writer in each column family
  std::uint32_t value_bytes = 600;  // largest value; the mean is half of it
};

// What a writer does after the batch of an operation.
enum class After : std::uint8_t { kNothing, kSyncWal, kFlushFamilies, kCompact };

struct Change {
  std::uint32_t family = 0;
  std::uint32_t key = 0;
  bool erase = false;
};

// One atomic batch.
struct Operation {
  std::vector<Change> changes;
  bool sync = false;
  After after = After::kNothing;
};

// Operations are numbered from 1. A round begins whenever the load goes on after a crash, so that
// an operation that was lost is not done again but replaced by another one.
Operation MakeOperation(const LoadShape& shape, std::uint32_t writer, std::uint64_t round,
                        std::uint64_t number);

// Keys of a writer sort by number, and those of a writer before those of the next one.
std::string KeyName(std::uint32_t writer, std::uint32_t key);
std::string MakeValue(const LoadShape& shape, std::uint32_t writer, std::uint32_t family,
                      std::uint32_t key, std::uint64_t round, std::uint64_t number);

// Contents of a writer's keys after its first `count` operations.
class Model {
 public:
  struct Slot {
    std::uint64_t number = 0;  // of the operation that wrote it; 0: the key does not exist
    std::uint64_t round = 0;
  };
  // rounds[r] is the number of the first operation of round r.
  Model(const LoadShape& shape, std::uint32_t writer, const std::vector<std::uint64_t>& rounds,
        std::uint64_t count);

  const Slot& slot(std::uint32_t family, std::uint32_t key) const {
    return slots_[std::size_t{family} * keys_ + key];
  }

 private:
  std::uint32_t keys_;
  std::vector<Slot> slots_;
};

}  // namespace zlfs::crash
