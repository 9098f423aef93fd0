#include "kvmix/source/keys.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>

namespace kvmix {
namespace {

TEST(Permutation, MeetsEveryNumberOnce) {
  for (const unsigned bits : {8U, 9U, 13U, 16U}) {
    const Permutation permutation(bits, 42);
    std::vector<bool> met(std::size_t{1} << bits);
    for (std::uint64_t x = 0; x < met.size(); ++x) {
      const std::uint64_t y = permutation(x);
      ASSERT_LT(y, met.size());
      ASSERT_FALSE(met[y]) << bits << " bits, " << x;
      met[y] = true;
      ASSERT_EQ(permutation.Inverse(y), x);
    }
  }
}

TEST(Permutation, InvertsLargeNumbersToo) {
  const Permutation permutation(41, 7);
  Random random(1, 0);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t x = random.Below(std::uint64_t{1} << 41);
    ASSERT_EQ(permutation.Inverse(permutation(x)), x);
  }
}

// Consecutive keys must not form a pattern: each 64th of the space gets its share of any 6400
// consecutive keys.
TEST(Permutation, SpreadsNeighbours) {
  for (const std::uint64_t seed : {1ULL, 2ULL, 3ULL}) {
    const Permutation permutation(20, seed);
    for (std::uint64_t first = 0; first < (1 << 20); first += 1 << 17) {
      std::array<int, 64> cells{};
      for (std::uint64_t x = first; x < first + 6400; ++x)
        ++cells[permutation(2 * x % (1 << 20)) >> 14];
      for (const int cell : cells) EXPECT_NEAR(cell, 100, 45) << "seed " << seed;
    }
  }
  EXPECT_NE(Permutation(20, 1)(5), Permutation(20, 2)(5));
}

KeyOptions Options(std::uint64_t existing, std::uint64_t space) {
  KeyOptions options;
  options.existing = existing;
  options.key_space = space;
  return options;
}

TEST(Slice, HoldsTheExistingKeys) {
  for (const std::uint64_t existing : {0ULL, 1ULL, 63ULL, 64ULL, 65ULL, 1000ULL}) {
    Slice slice(Options(existing, 2000), 0);
    EXPECT_EQ(slice.Live(), existing);
    EXPECT_EQ(slice.IsLive(existing), false);
    if (existing > 0) {
      EXPECT_TRUE(slice.IsLive(existing - 1));
    }
    EXPECT_EQ(slice.Insert(), existing);
    EXPECT_TRUE(slice.IsLive(existing));
    EXPECT_EQ(slice.Live(), existing + 1);
  }
}

TEST(Slice, EndsWhenTheKeySpaceIsFull) {
  Slice slice(Options(0, 200), 0);
  EXPECT_GE(slice.Capacity(), 200U);
  while (!slice.Full()) slice.Insert();
  EXPECT_EQ(slice.Live(), slice.Capacity());
}

TEST(Slice, ThreadsShareTheKeysAndNoKeyIsShared) {
  KeyOptions options = Options(1003, 5000);
  options.slices = 3;
  std::set<std::string> texts;
  std::uint64_t live = 0;
  for (unsigned index = 0; index < 3; ++index) {
    const Slice slice(options, index);
    live += slice.Live();
    std::string text;
    for (std::uint64_t id = 0; id < slice.Live(); ++id) {
      slice.Write(slice.Position(id), &text);
      EXPECT_EQ(text.size(), 16U);
      EXPECT_EQ(slice.Read(text), slice.Position(id));
      EXPECT_TRUE(texts.insert(text).second);
    }
  }
  EXPECT_EQ(live, 1003U);
}

TEST(Slice, AbsentKeysAreNeverInserted) {
  const Slice slice(Options(1000, 1000), 0);
  for (std::uint64_t id = 0; id < slice.Capacity(); ++id) {
    ASSERT_EQ(slice.LiveAt(slice.AbsentPosition(id)), Slice::kAbsent);
  }
}

TEST(Slice, TextsSortAsPositionsDo) {
  const Slice slice(Options(10, 100), 0);
  std::string one;
  std::string other;
  for (std::uint64_t position = 0; position + 1 < slice.Positions(); ++position) {
    slice.Write(position, &one);
    slice.Write(position + 1, &other);
    ASSERT_LT(one, other);
  }
  EXPECT_EQ(slice.Read(""), 0U);
  EXPECT_EQ(slice.Read("\xff"), slice.Positions() - 1);
  EXPECT_EQ(slice.Read("99999999999999999999999999"), slice.Positions() - 1);
}

// Compares the live keys with a set after many deletions, and checks that draws are uniform.
TEST(Slice, DrawsLiveKeysUniformly) {
  Slice slice(Options(0, 20'000), 0);
  std::set<std::uint64_t> live;
  Random random(3, 0);
  Chooser any(Distribution::kUniform, 0.5);
  for (int step = 0; step < 18'000; ++step) {
    live.insert(slice.Insert());
    if (live.size() > 1000) {
      const std::uint64_t id = slice.Pick(&any, &random);
      ASSERT_EQ(live.erase(id), 1U);
      slice.Delete(id);
    }
  }
  ASSERT_EQ(slice.Live(), live.size());
  std::map<std::uint64_t, int> drawn;
  for (int i = 0; i < 100'000; ++i) ++drawn[slice.Pick(&any, &random)];
  EXPECT_EQ(drawn.size(), live.size());
  double statistic = 0;
  for (const auto& [id, count] : drawn) {
    ASSERT_TRUE(live.contains(id));
    statistic += (count - 100.0) * (count - 100.0) / 100.0;
  }
  EXPECT_NEAR(statistic, 999, 4 * std::sqrt(2.0 * 999));
}

TEST(Slice, LatestPrefersTheNewestKeys) {
  Slice slice(Options(0, 10'000), 0);
  Random random(3, 0);
  Chooser any(Distribution::kUniform, 0.5);
  for (int step = 0; step < 9000; ++step) {
    slice.Insert();
    if (slice.Live() > 500) slice.Delete(slice.Pick(&any, &random));
  }
  Chooser latest(Distribution::kLatest, 0.99);
  Chooser zipfian(Distribution::kZipfian, 0.99);
  double young = 0;
  double old = 0;
  for (int i = 0; i < 10'000; ++i) {
    young += static_cast<double>(slice.Pick(&latest, &random));
    old += static_cast<double>(slice.Pick(&zipfian, &random));
  }
  EXPECT_GT(young / 10'000, 8500);
  EXPECT_LT(old / 10'000, young / 10'000 - 300);
}

TEST(Slice, RangesHoldTheRequestedNumberOfKeys) {
  KeyOptions options = Options(10'000, 30'000);
  for (const bool sequential : {false, true}) {
    options.sequential = sequential;
    Slice slice(options, 0);
    Random random(1, 0);
    Chooser any(Distribution::kUniform, 0.5);
    double seen = 0;
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t first = slice.Position(slice.Pick(&any, &random));
      const std::uint64_t last = slice.RangeEnd(first, 50);
      for (std::uint64_t at = first; at <= last; ++at) seen += slice.LiveAt(at) != Slice::kAbsent;
    }
    EXPECT_NEAR(seen / 1000, 50, 1.5) << sequential;  // ranges are truncated at the last key
  }
}

TEST(Slice, DeletedRangesAreGone) {
  Slice slice(Options(5000, 5000), 0);
  const std::uint64_t first = slice.Position(17);
  const std::uint64_t last = slice.RangeEnd(first, 100);
  std::uint64_t inside = 0;
  for (std::uint64_t at = first; at <= last; ++at) inside += slice.LiveAt(at) != Slice::kAbsent;
  ASSERT_GT(inside, 0U);
  slice.DeleteRange(first, last);
  EXPECT_EQ(slice.Live(), 5000 - inside);
  EXPECT_FALSE(slice.IsLive(17));
}

TEST(Slice, SequentialKeysAscend) {
  KeyOptions options = Options(0, 100);
  options.sequential = true;
  Slice slice(options, 0);
  std::uint64_t before = slice.Position(slice.Insert());
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t position = slice.Position(slice.Insert());
    EXPECT_GT(position, before);
    EXPECT_EQ(slice.LiveAt(position), static_cast<std::uint64_t>(i) + 1);
    before = position;
  }
}

}  // namespace
}  // namespace kvmix
