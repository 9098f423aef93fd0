// Tests the frequencies of keys. The seeds are fixed, so the results are deterministic.

#include "kvmix/source/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace kvmix {
namespace {

constexpr double kTheta = 0.99;

// Pearson's chi-square statistic in standard deviations above its expectation (approximation by
// Wilson and Hilferty 1931). Values above 4 are practically impossible by chance.
double Surprise(const std::vector<double>& expected, const std::vector<std::uint64_t>& found) {
  double statistic = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = static_cast<double>(found[i]) - expected[i];
    statistic += difference * difference / expected[i];
  }
  const auto freedom = static_cast<double>(expected.size() - 1);
  const double spread = 2 / (9 * freedom);
  return (std::cbrt(statistic / freedom) - (1 - spread)) / std::sqrt(spread);
}

TEST(Random, IsTheSameEverywhere) {
  Random random(1, 0);
  const std::uint64_t first = random.Next();
  EXPECT_EQ(first, Random(1, 0).Next());
  EXPECT_NE(first, Random(1, 1).Next());
  EXPECT_NE(first, Random(2, 0).Next());
}

// Reference values of SplitMix64 for seed 1234567, from its public implementations.
TEST(Random, MixIsSplitMix64) {
  std::uint64_t state = 1234567;
  for (const std::uint64_t wanted :
       {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL}) {
    EXPECT_EQ(Mix64(state), wanted);
    state += 0x9e3779b97f4a7c15ULL;
  }
}

TEST(Uniform, PassesChiSquare) {
  constexpr std::size_t kCells = 1000;
  constexpr std::uint64_t kDraws = 1'000'000;
  Chooser chooser(Distribution::kUniform, kTheta);
  Random random(7, 0);
  std::vector<std::uint64_t> found(kCells);
  for (std::uint64_t i = 0; i < kDraws; ++i) ++found[chooser.Next(&random, kCells)];
  const std::vector<double> expected(kCells, double{kDraws} / kCells);
  EXPECT_LT(std::abs(Surprise(expected, found)), 4);
  // The test detects a defect of six per cent in a tenth of the cells.
  for (std::size_t cell = 900; cell < kCells; ++cell) found[cell] += 60;
  EXPECT_GT(Surprise(expected, found), 4);
}

TEST(Uniform, SharesHaveTheRightMoments) {
  Random random(3, 0);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 1'000'000;
  for (int i = 0; i < kDraws; ++i) {
    const double share = random.Share();
    ASSERT_GE(share, 0);
    ASSERT_LT(share, 1);
    sum += share;
    squares += share * share;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 4 * 0.2887 / 1000);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 4 * 0.2981 / 1000);
}

TEST(Zeta, AgreesWithTheSum) {
  for (const std::uint64_t n : {1ULL, 2ULL, 999ULL, 1000ULL, 1001ULL, 123456ULL}) {
    for (const double theta : {0.2, 0.5, 0.99}) {
      double sum = 0;
      for (std::uint64_t i = n; i > 0; --i) sum += std::pow(static_cast<double>(i), -theta);
      EXPECT_NEAR(Zeta(n, theta) / sum, 1, 1e-12) << n << " " << theta;
    }
  }
}

// The constant ScrambledZipfianGenerator.ZETAN in YCSB's source.
TEST(Zeta, AgreesWithYcsb) { EXPECT_NEAR(Zeta(10'000'000'000, kTheta), 26.46902820178302, 1e-9); }

// Shares of the ranks [0], [1], [2, 4), [4, 8), … by YCSB's formula. `below(k)` is the smallest
// uniform number for which the generator returns a rank of at least k.
std::vector<double> FormulaShares(std::uint64_t n) {
  const double items = static_cast<double>(n);
  const double zeta = Zeta(n, kTheta);
  const double second = 1 + std::pow(0.5, kTheta);
  const double eta = (1 - std::pow(2 / items, 1 - kTheta)) / (1 - second / zeta);
  const auto below = [&](double k) { return (std::pow(k / items, 1 - kTheta) - 1 + eta) / eta; };
  std::vector<double> limits = {1 / zeta, second / zeta};
  for (double k = 4; k < items; k *= 2) limits.push_back(below(k));
  limits.push_back(1);
  std::adjacent_difference(limits.begin(), limits.end(), limits.begin());
  return limits;
}

std::size_t Octave(std::uint64_t rank) {
  return rank < 2 ? rank : static_cast<std::size_t>(std::bit_width(rank));
}

TEST(Zipfian, FollowsYcsbsFormula) {
  constexpr std::uint64_t kItems = 1'000'000;
  constexpr std::uint64_t kDraws = 2'000'000;
  std::vector<double> expected = FormulaShares(kItems);
  for (double& share : expected) share *= kDraws;
  std::vector<std::uint64_t> found(expected.size());
  Zipfian zipfian(kTheta);
  Random random(11, 0);
  for (std::uint64_t i = 0; i < kDraws; ++i) ++found[Octave(zipfian.Next(&random, kItems))];
  EXPECT_LT(std::abs(Surprise(expected, found)), 4);
}

// The formula is an approximation: each octave is within a fifth of the true distribution.
TEST(Zipfian, IsNearlyZipfian) {
  constexpr std::uint64_t kItems = 1'000'000;
  const std::vector<double> shares = FormulaShares(kItems);
  const double all = Zeta(kItems, kTheta);
  EXPECT_DOUBLE_EQ(shares[0], 1 / all);
  for (std::size_t octave = 2; octave < shares.size(); ++octave) {
    const std::uint64_t first = std::uint64_t{1} << (octave - 1);
    const std::uint64_t end = std::min(kItems, 2 * first);
    const double truth = (Zeta(end, kTheta) - Zeta(first, kTheta)) / all;
    EXPECT_NEAR(shares[octave] / truth, 1, 0.2) << "ranks from " << first;
  }
}

TEST(Zipfian, FollowsANumberOfItemsThatChanges) {
  Zipfian zipfian(kTheta);
  Random random(5, 0);
  for (std::uint64_t n = 1; n < 5000; ++n) ASSERT_LT(zipfian.Next(&random, n), n);
  std::uint64_t zeros = 0;
  for (int i = 0; i < 100'000; ++i) zeros += zipfian.Next(&random, 2) == 0 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(zeros) / 100'000, 1 / Zeta(2, kTheta), 0.007);
}

TEST(Latest, IsZipfianFromTheOtherEnd) {
  Chooser latest(Distribution::kLatest, kTheta);
  Chooser zipfian(Distribution::kZipfian, kTheta);
  Random one(9, 0);
  Random other(9, 0);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(latest.Next(&one, 777), 776 - zipfian.Next(&other, 777));
  }
}

}  // namespace
}  // namespace kvmix
