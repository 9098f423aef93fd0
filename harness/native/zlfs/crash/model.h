// The operations of a test load. They depend only on seed, writer, round and operation number. So
// the number of completed operations determines every key and every value.

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
  std::uint32_t keys = 800;         // per writer in each column family
  std::uint32_t value_bytes = 600;  // largest value; the mean is half of it
};

// The action after an operation's batch.
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

// Operations are numbered from 1. A new round begins when the load continues after a crash, so that
// a different operation replaces a lost one.
Operation MakeOperation(const LoadShape& shape, std::uint32_t writer, std::uint64_t round,
                        std::uint64_t number);

// Keys sort by writer, then by number.
std::string KeyName(std::uint32_t writer, std::uint32_t key);
std::string MakeValue(const LoadShape& shape, std::uint32_t writer, std::uint32_t family,
                      std::uint32_t key, std::uint64_t round, std::uint64_t number);

// The content of a writer's keys after its first `count` operations.
class Model {
 public:
  struct Slot {
    std::uint64_t number = 0;  // operation that wrote the key; 0: the key does not exist
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
