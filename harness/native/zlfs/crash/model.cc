#include "zlfs/crash/model.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace zlfs::crash {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): cheap to seed for each operation.
class Random {
 public:
  explicit Random(std::uint64_t state) : state_(state) {}
  std::uint64_t Next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint32_t Below(std::uint32_t n) { return static_cast<std::uint32_t>(Next() % n); }

 private:
  std::uint64_t state_;
};

std::uint64_t Mix(std::uint64_t a, std::uint64_t b) { return Random(a ^ (b << 1)).Next(); }

}  // namespace

Operation MakeOperation(const LoadShape& shape, std::uint32_t writer, std::uint64_t round,
                        std::uint64_t number) {
  Random random(Mix(Mix(Mix(shape.seed, writer), round), number));
  Operation operation;
  const std::uint32_t changes = 1 + random.Below(4);
  for (std::uint32_t i = 0; i < changes; ++i) {
    operation.changes.push_back({.family = random.Below(shape.families),
                                 .key = random.Below(shape.keys),
                                 .erase = random.Below(8) == 0});
  }
  operation.sync = random.Below(2) == 0;
  const std::uint32_t after = random.Below(600);
  operation.after = after < 8    ? After::kSyncWal
                    : after < 11 ? After::kFlushFamilies
                    : after < 12 ? After::kCompact
                                 : After::kNothing;
  return operation;
}

std::string KeyName(std::uint32_t writer, std::uint32_t key) {
  char name[32];
  std::snprintf(name, sizeof(name), "w%02u.%08u", writer, key);
  return name;
}

std::string MakeValue(const LoadShape& shape, std::uint32_t writer, std::uint32_t family,
                      std::uint32_t key, std::uint64_t round, std::uint64_t number) {
  Random random(Mix(Mix(Mix(Mix(shape.seed, writer), round), number), key * 64ULL + family));
  char head[96];
  const int n = std::snprintf(head, sizeof(head), "%u.%u.%u.%llu.%llu:", writer, family, key,
                              static_cast<unsigned long long>(round),
                              static_cast<unsigned long long>(number));
  std::string value(head, static_cast<std::size_t>(n));
  const std::size_t begin = value.size();
  value.resize(begin + random.Below(shape.value_bytes));
  for (std::size_t i = begin; i < value.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.Next();
    std::memcpy(&value[i], &word, std::min(sizeof(word), value.size() - i));
  }
  return value;
}

Model::Model(const LoadShape& shape, std::uint32_t writer, const std::vector<std::uint64_t>& rounds,
             std::uint64_t count)
    : keys_(shape.keys), slots_(std::size_t{shape.families} * shape.keys) {
  std::uint64_t round = 0;
  for (std::uint64_t number = 1; number <= count; ++number) {
    while (round + 1 < rounds.size() && rounds[round + 1] <= number) ++round;
    for (const Change& change : MakeOperation(shape, writer, round, number).changes) {
      slots_[std::size_t{change.family} * keys_ + change.key] =
          change.erase ? Slot{} : Slot{.number = number, .round = round};
    }
  }
}

}  // namespace zlfs::crash
