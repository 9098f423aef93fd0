// Write amplification of the translation layer against closed forms and published results.

#include "model/ftl/ftl.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kvmix/source/random.h"

namespace zonemodel {
namespace {

constexpr std::uint32_t kBlocks = 2048;  // logical
constexpr std::uint32_t kBlockPages = 64;

Ftl Make(double percent, Collection collection, bool separation) {
  FlashParameters flash{};
  flash.channels = flash.ways = 1;
  flash.program_unit = flash.page = 16 << 10;
  const FtlParameters parameters{.capacity = Bytes{kBlocks} * kBlockPages * 4096,
                                 .map_unit = 4096,
                                 .over_provisioning = static_cast<std::uint64_t>(percent * 1e7),
                                 .block_units = 16,
                                 .dies = 1,
                                 .reserve = 3,
                                 .collection = collection,
                                 .hot_cold_separation = separation};
  return {parameters, flash};
}

// Overwrites until the amplification is steady, then returns the mean of a further two rounds.
template <typename Draw>
double Amplification(Ftl* ftl, int warm, Draw draw) {
  Ftl::Work work;
  const auto write = [&](std::uint32_t page) {
    ftl->Write(page, &work);
    work.units.clear();
    work.erased.clear();
  };
  for (std::uint32_t page = 0; page < ftl->pages(); ++page) write(page);
  for (std::uint64_t i = 0; i < std::uint64_t{ftl->pages()} * static_cast<unsigned>(warm); ++i) {
    write(draw());
  }
  work.moved = 0;
  const std::uint64_t measured = std::uint64_t{ftl->pages()} * 2;
  for (std::uint64_t i = 0; i < measured; ++i) write(draw());
  return 1 + static_cast<double>(work.moved) / static_cast<double>(measured);
}

double Uniform(double percent, Collection collection) {
  Ftl ftl = Make(percent, collection, false);
  kvmix::Random random(7, 7);
  return Amplification(&ftl, 4,
                       [&] { return static_cast<std::uint32_t>(random.Below(ftl.pages())); });
}

// A tenth of the pages gets nine tenths of the writes.
double HotCold(double percent, Collection collection, bool separation) {
  Ftl ftl = Make(percent, collection, separation);
  kvmix::Random random(8, 8);
  const std::uint32_t few = ftl.pages() / 10;
  return Amplification(&ftl, 8, [&] {
    const bool is_hot = random.Below(10) < 9;
    return static_cast<std::uint32_t>(is_hot ? random.Below(few)
                                             : few + random.Below(ftl.pages() - few));
  });
}

// Lambert's W function, the branch above -1.
double Lambert(double x) {
  double w = -0.5;
  for (int i = 0; i < 100; ++i) {
    w -= (w * std::exp(w) - x) / (std::exp(w) * (w + 1));
  }
  return w;
}

// Desnoyers, SYSTOR 2012: FIFO (LRU) cleaning under uniform writes. `alpha` is physical / logical.
double ClosedForm(double alpha) { return alpha / (alpha + Lambert(-alpha * std::exp(-alpha))); }

// The same source, greedy cleaning: blocks have n pages, and the fullest block that is cleaned
// holds X0.
double GreedyForm(double alpha, double n) {
  const double a = (1 + 1 / (2 * n)) * alpha;
  const double x0 = 0.5 - n / alpha * Lambert(-a * std::exp(-a));
  return n / (n - (x0 - 1));
}

// The same source, FIFO cleaning: a share `pages` of the pages gets a share `writes` of the writes.
double HotColdForm(double alpha, double pages, double writes) {
  const auto part = [alpha](double p, double w, double a) {
    return w / (1 - std::exp(-w / p * alpha / a));
  };
  double a = 2;
  for (int i = 0; i < 1000; ++i) a = part(pages, writes, a) + part(1 - pages, 1 - writes, a);
  return a;
}

class Theory : public testing::TestWithParam<double> {};

TEST_P(Theory, UniformOverwritesUnderFifoMatchTheClosedForm) {
  const double expected = ClosedForm(1 + GetParam() / 100);
  EXPECT_NEAR(Uniform(GetParam(), Collection::kFifo) / expected, 1, 0.03) << expected;
}

TEST_P(Theory, UniformOverwritesUnderGreedyMatchThePublishedForm) {
  const double expected = GreedyForm(1 + GetParam() / 100, kBlockPages);
  const double greedy = Uniform(GetParam(), Collection::kGreedy);
  EXPECT_NEAR(greedy / expected, 1, 0.03) << expected;
  EXPECT_LT(greedy, ClosedForm(1 + GetParam() / 100));
}

TEST_P(Theory, HotAndColdUnderFifoMatchThePublishedForm) {
  const double expected = HotColdForm(1 + GetParam() / 100, 0.1, 0.9);
  EXPECT_NEAR(HotCold(GetParam(), Collection::kFifo, false) / expected, 1, 0.03) << expected;
}

INSTANTIATE_TEST_SUITE_P(OverProvisioning, Theory, testing::Values(7.0, 12.5, 20.0, 28.0, 50.0));

TEST(Ftl, SeparationHelpsWhereHotDataIsOverwritten) {
  const double mixed = HotCold(20, Collection::kGreedy, false);
  const double separate = HotCold(20, Collection::kGreedy, true);
  EXPECT_LT(separate, mixed);
}

// Two superblocks of over-provisioning are enough for every order of writes and trims.
TEST(Ftl, AFullDriveAlwaysHasAFreeSuperblock) {
  FlashParameters flash{};
  flash.channels = flash.ways = 1;
  flash.program_unit = flash.page = 16 << 10;
  for (int kind = 0; kind < 8; ++kind) {
    const FtlParameters parameters{
        .capacity = Bytes{16} * 8 * 4096,
        .map_unit = 4096,
        .over_provisioning = kWhole / 8,
        .block_units = 2,
        .dies = 1,
        .reserve = 3,
        .collection = (kind & 1) != 0 ? Collection::kFifo : Collection::kGreedy,
        .hot_cold_separation = (kind & 2) != 0};
    Ftl ftl(parameters, flash);
    EXPECT_EQ(ftl.superblocks(), 16U + 2 + 3);
    kvmix::Random random(7, static_cast<std::uint64_t>(kind));
    std::vector<bool> mapped(ftl.pages());
    Ftl::Work work;
    std::uint64_t written = 0;
    for (int i = 0; i < 20'000; ++i) {
      const bool few = i / 1000 % 2 == 1;  // pages are hot
      const auto page = static_cast<std::uint32_t>(random.Below(few ? 8 : ftl.pages()));
      mapped[page] = (kind & 4) == 0 || random.Below(4) > 0;
      written += mapped[page] ? 1 : 0;
      ASSERT_NO_THROW(mapped[page] ? ftl.Write(page, &work) : ftl.Trim(page)) << kind;
    }
    // Each unit that became whole holds pages of the host or moved ones.
    EXPECT_EQ(written + work.moved, work.units.size() * 4 + ftl.PartialBytes() / 4096) << kind;
    Ftl::Place place{};
    for (std::uint32_t page = 0; page < ftl.pages(); ++page) {
      EXPECT_FALSE(!mapped[page] && ftl.Find(page, &place));
    }
  }
}

TEST(Ftl, TrimmedPagesAreNotMoved) {
  Ftl ftl = Make(7, Collection::kGreedy, false);
  Ftl::Work work;
  for (std::uint32_t page = 0; page < ftl.pages(); ++page) ftl.Write(page, &work);
  const std::uint32_t half = ftl.pages() / 2;
  for (std::uint32_t page = half; page < ftl.pages(); ++page) ftl.Trim(page);
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t page = 0; page < half; ++page) ftl.Write(page, &work);
  }
  EXPECT_EQ(work.moved, 0U);
  Ftl::Place place{};
  EXPECT_TRUE(ftl.Find(0, &place));
  EXPECT_FALSE(ftl.Find(half, &place));
}

}  // namespace
}  // namespace zonemodel
