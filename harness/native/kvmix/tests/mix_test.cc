#include "kvmix/source/mix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kvmix/source/text.h"

namespace kvmix {
namespace {

MixOptions Options(std::uint64_t operations) {
  MixOptions options;
  options.operations = operations;
  options.keys.key_space = operations;
  options.value_size = 20;
  options.seed = 1;
  options.remember = true;
  const auto weight = [&options](Kind kind) -> double& { return options.weights[Index(kind)]; };
  weight(Kind::kInsert) = 50;
  weight(Kind::kUpdate) = 25;
  weight(Kind::kDelete) = 10;
  weight(Kind::kAbsentQuery) = 15;
  return options;
}

MixOptions AllKinds(std::uint64_t operations) {
  MixOptions options = Options(operations);
  options.weights = {40, 20, 10, 0.5, 10, 10, 5};
  options.range_keys = 5;
  return options;
}

std::string Text(const MixOptions& options, unsigned thread = 0) {
  MixSource source(options, thread);
  std::string text;
  for (Operation operation; source.Next(&operation);) AppendText(operation, &text);
  return text;
}

TEST(Mix, IsReproducibleToTheByte) {
  const MixOptions options = AllKinds(20'000);
  const std::string text = Text(options);
  EXPECT_EQ(text, Text(options));
  MixOptions other = options;
  other.seed = 2;
  EXPECT_NE(text, Text(other));
  other = options;
  other.keys.key_seed = 2;
  EXPECT_NE(text, Text(other));
  // Verification keeps more data but does not change the operations.
  other = options;
  other.remember = false;
  EXPECT_EQ(text, Text(other));
}

// Studies record seeds, so a seed must always produce the same operations. The expected value is
// the FNV-1a digest of their text.
TEST(Mix, ASeedAlwaysGivesTheSameOperations) {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const char letter : Text(AllKinds(10'000))) {
    digest = (digest ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  EXPECT_EQ(digest, 12920256448162200416ULL);
}

TEST(Mix, WeightsAreKept) {
  constexpr std::uint64_t kOperations = 200'000;
  MixSource source(Options(kOperations), 0);
  std::array<double, kKinds> found{};
  for (Operation operation; source.Next(&operation);) ++found[Index(operation.kind)];
  const std::array<double, kKinds> expected = {0.5, 0.25, 0.1, 0, 0, 0.15, 0};
  double statistic = 0;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (expected[kind] == 0) {
      EXPECT_EQ(found[kind], 0);
      continue;
    }
    const double wanted = expected[kind] * kOperations;
    statistic += (found[kind] - wanted) * (found[kind] - wanted) / wanted;
  }
  EXPECT_LT(statistic, 16.3);  // chi-square with 3 degrees of freedom: 0.1 %
}

// Every tenth of a stationary mix has the same share of inserts.
TEST(Mix, IsStationary) {
  MixSource source(Options(100'000), 0);
  Operation operation;
  for (int tenth = 0; tenth < 10; ++tenth) {
    double inserts = 0;
    for (int i = 0; i < 10'000 && source.Next(&operation); ++i) {
      inserts += operation.kind == Kind::kInsert;
    }
    EXPECT_NEAR(inserts, 5000, 4 * 50) << tenth;
  }
}

TEST(Mix, GatedCountsAreExactAndKindsWait) {
  constexpr std::uint64_t kOperations = 10'000;
  MixOptions options = Options(kOperations);
  options.gated = true;
  MixSource source(options, 0);
  std::array<std::uint64_t, kKinds> found{};
  for (Operation operation; source.Next(&operation);) {
    const std::uint64_t inserts = found[Index(Kind::kInsert)];
    if (operation.kind == Kind::kUpdate || operation.kind == Kind::kDelete) {
      ASSERT_GE(inserts, 500U);
    }
    if (operation.kind == Kind::kAbsentQuery) {
      ASSERT_GE(inserts, 2000U);
    }
    ++found[Index(operation.kind)];
  }
  EXPECT_EQ(source.Problem(), "");
  const std::array<std::uint64_t, kKinds> wanted = {5000, 2500, 1000, 0, 0, 1500, 0};
  EXPECT_EQ(found, wanted);
}

TEST(Mix, GatedKeepsAKeyForOperationsThatNeedOne) {
  MixOptions options = Options(1000);
  options.gated = true;
  options.weights = {45, 5, 45, 0, 5, 0, 0};  // as many deletes as inserts
  MixSource source(options, 0);
  std::uint64_t done = 0;
  for (Operation operation; source.Next(&operation);) ++done;
  EXPECT_EQ(done, 1000U);
  EXPECT_EQ(source.keys().Live(), 0U);
}

TEST(Mix, BeginsWithAnInsertInAnEmptyDatabase) {
  MixOptions options = Options(10);
  options.weights = {1, 99, 0, 0, 0, 0, 0};
  MixSource source(options, 0);
  Operation operation;
  ASSERT_TRUE(source.Next(&operation));
  EXPECT_EQ(operation.kind, Kind::kInsert);
}

TEST(Mix, ReportsWhyItCannotContinue) {
  MixOptions options = Options(10);
  options.weights = {0, 1, 0, 0, 0, 0, 0};
  Operation operation;
  MixSource nothing(options, 0);
  EXPECT_FALSE(nothing.Next(&operation));
  EXPECT_NE(nothing.Problem().find("no key"), std::string::npos);

  options = Options(0);
  options.keys.key_space = 1;
  options.weights = {1, 0, 0, 0, 0, 0, 0};
  MixSource full(options, 0);
  while (full.Next(&operation)) {
  }
  EXPECT_NE(full.Problem().find("key space"), std::string::npos);
}

// Applies each operation to a map and compares the map with the source's expected contents.
TEST(Mix, ExpectedContentsFollowTheOperations) {
  MixOptions options = AllKinds(30'000);
  options.keys.existing = 500;
  options.keys.key_space = 30'500;
  options.keys.slices = 2;
  MixSource source(options, 1);
  std::map<std::string, std::string, std::less<>> model;
  source.ExpectedRange("", "\xff", [&model](std::string_view key, std::string_view value) {
    model.emplace(key, value);
    return true;
  });
  ASSERT_EQ(model.size(), 250U);
  for (Operation operation; source.Next(&operation);) {
    const bool there = model.contains(operation.key);
    switch (operation.kind) {
      case Kind::kInsert:
        ASSERT_FALSE(there);
        model.emplace(operation.key, operation.value);
        break;
      case Kind::kUpdate:
        ASSERT_TRUE(there);
        ASSERT_NE(model.find(operation.key)->second, operation.value);
        model.find(operation.key)->second = operation.value;
        break;
      case Kind::kDelete:
        ASSERT_TRUE(there);
        model.erase(model.find(operation.key));
        break;
      case Kind::kRangeDelete:
        model.erase(model.lower_bound(operation.key), model.upper_bound(operation.last));
        break;
      case Kind::kQuery:
        ASSERT_TRUE(there);
        ASSERT_EQ(source.Expected(operation.key), model.find(operation.key)->second);
        break;
      case Kind::kAbsentQuery:
        ASSERT_FALSE(there);
        ASSERT_EQ(source.Expected(operation.key), std::nullopt);
        break;
      case Kind::kScan: {
        auto at = model.lower_bound(operation.key);
        source.ExpectedRange(operation.key, operation.last, [&at](auto key, auto value) {
          EXPECT_EQ(at->first, key);
          EXPECT_EQ(at->second, value);
          ++at;
          return true;
        });
        ASSERT_EQ(at, model.upper_bound(operation.last));
        break;
      }
    }
  }
  EXPECT_EQ(source.Problem(), "");
  EXPECT_EQ(source.keys().Live(), model.size());
}

TEST(Mix, ThreadsShareTheOperations) {
  MixOptions options = Options(1001);
  options.keys.slices = 4;
  std::uint64_t sum = 0;
  for (unsigned thread = 0; thread < 4; ++thread) sum += OperationsOf(options, thread);
  EXPECT_EQ(sum, 1001U);
  EXPECT_NE(Text(options, 0), Text(options, 1));
}

TEST(Mix, LaterPhasesKnowTheKeysOfTheFirst) {
  MixOptions fill = Options(1000);
  fill.weights = {1, 0, 0, 0, 0, 0, 0};
  fill.keys.key_space = 3000;
  MixOptions later = Options(1000);
  later.seed = 99;
  later.keys.existing = 1000;
  later.keys.key_space = 3000;
  MixSource source(later, 0);
  MixSource filled(fill, 0);
  for (Operation operation; filled.Next(&operation);) {
    ASSERT_EQ(source.Expected(operation.key), operation.value);
  }
}

TEST(Mix, FaultsAreNamed) {
  const MixOptions good = Options(10);
  EXPECT_EQ(Fault(good), std::nullopt);
  const auto fault = [&good](auto change) {
    MixOptions options = good;
    change(&options);
    return Fault(options).value_or("none");
  };
  EXPECT_NE(fault([](MixOptions* o) { o->weights = {}; }).find("weights"), std::string::npos);
  EXPECT_NE(fault([](MixOptions* o) { o->weights[0] = -1; }).find("weights"), std::string::npos);
  EXPECT_NE(fault([](MixOptions* o) { o->theta = 1; }).find("theta"), std::string::npos);
  EXPECT_NE(fault([](MixOptions* o) { o->value_size = 0; }).find("value"), std::string::npos);
  EXPECT_NE(fault([](MixOptions* o) { o->keys.existing = 11; }).find("existing"),
            std::string::npos);
  EXPECT_NE(fault([](MixOptions* o) { o->keys.key_size = 2; }).find("key_size"), std::string::npos);
  EXPECT_NE(fault([](MixOptions* o) { o->keys.key_space = ~0ULL; }).find("too large"),
            std::string::npos);
}

TEST(Values, DependOnlyOnTheirTag) {
  ValueMaker maker(100, 1.0);
  const std::string one = maker.Make(1);
  EXPECT_EQ(one.size(), 100U);
  EXPECT_EQ(one.substr(0, 16), "0000000000000001");
  EXPECT_NE(one, maker.Make(2));
  EXPECT_EQ(one, maker.Make(1));
  EXPECT_EQ(one.find_first_of(" \t\n"), std::string::npos);
  EXPECT_EQ(ValueMaker(5, 1.0).Make(0xabcdef0123456789), "abcde");
}

TEST(Values, HaveTheCompressionRatio) {
  const std::string half = ValueMaker(1000, 0.5).Make(3);
  EXPECT_EQ(half.substr(500), std::string(500, '.'));
  EXPECT_EQ(half.substr(0, 500).find('.'), std::string::npos);
}

}  // namespace
}  // namespace kvmix
