#include "kvmix/measure/histogram.h"

#include <gtest/gtest.h>

#include "kvmix/source/random.h"

namespace kvmix {
namespace {

TEST(Histogram, BucketsTouchAndAreNarrow) {
  std::uint64_t low = 0;
  for (std::size_t bucket = 0; bucket < 1000; ++bucket) {
    const std::uint64_t high = Histogram::Largest(bucket);
    ASSERT_GT(high, low);
    ASSERT_EQ(Histogram::BucketOf(low + 1), bucket);
    ASSERT_EQ(Histogram::BucketOf(high), bucket);
    if (high > 64) {
      ASSERT_LE((high - low) * 32, low) << bucket;
    }
    low = high;
  }
}

TEST(Histogram, EveryTimeHasItsBucket) {
  EXPECT_EQ(Histogram::BucketOf(0), 0U);
  Random random(1, 0);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t value = random.Next() >> (i % 64);
    const std::size_t bucket = Histogram::BucketOf(value);
    ASSERT_LE(value, Histogram::Largest(bucket));
    if (bucket > 0) {
      ASSERT_GT(value, Histogram::Largest(bucket - 1));
    }
  }
  Histogram histogram;
  histogram.Record(~std::uint64_t{0});  // falls into the last bucket
  EXPECT_EQ(histogram.Buckets().size(), 1U);
}

TEST(Histogram, AddsUp) {
  Histogram one;
  Histogram other;
  one.Record(100);
  one.Record(7);
  other.Record(100);
  other.Record(1'000'000);
  one.Add(other);
  EXPECT_EQ(one.count(), 4U);
  EXPECT_EQ(one.sum(), 1'000'207U);
  EXPECT_EQ(one.min(), 7U);
  EXPECT_EQ(one.max(), 1'000'000U);
  ASSERT_EQ(one.Buckets().size(), 3U);
  EXPECT_EQ(one.Buckets()[0].low, 6U);
  EXPECT_EQ(one.Buckets()[0].high, 7U);
  EXPECT_EQ(one.Buckets()[1].count, 2U);
}

TEST(Histogram, AnEmptyHistogramHasNoBuckets) {
  Histogram nothing;
  EXPECT_EQ(nothing.min(), 0U);
  EXPECT_EQ(nothing.max(), 0U);
  EXPECT_TRUE(nothing.Buckets().empty());
}

}  // namespace
}  // namespace kvmix
