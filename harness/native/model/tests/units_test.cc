#include "model/units.h"

#include <gtest/gtest.h>

#include "kvmix/source/random.h"
#include "model/events.h"
#include "model/load/histogram.h"

namespace zonemodel {
namespace {

TEST(Units, AreExactDecimals) {
  EXPECT_EQ(ParseTime("11.36us"), 11360U);
  EXPECT_EQ(ParseTime("0.0005us"), 1U);  // rounded to the nearest
  EXPECT_EQ(ParseTime("2 ms"), 2'000'000U);
  EXPECT_EQ(ParseBytes("1077MiB"), 1077U << 20);
  EXPECT_EQ(ParseBandwidth("0.5GiB/s"), 512U << 20);
  EXPECT_TRUE(ParseRate("1000/s").commands);
  EXPECT_EQ(ParseRate("10MiB/s").per_second, 10U << 20);
  EXPECT_EQ(Duration(1 << 20, 1000U << 20), 1'000'000U);
}

TEST(Units, RefuseTextsThatAreNotANumberWithAUnit) {
  for (const char* text : {"12", "us", "-1us", "1.us", ".5us", "1e3us", "12 parsecs", "1.2.3us",
                           "99999999999999999999s", "", "0x10us", "1,5us"}) {
    EXPECT_THROW(ParseTime(text), BadInput) << text;
  }
  EXPECT_THROW(ParseBytes("4KB"), BadInput);
  EXPECT_THROW(ParseBandwidth("0MiB/s"), BadInput);
  EXPECT_THROW(ParseRate("0/s"), BadInput);
}

TEST(Events, ComeInOrderOfTimeAndThenOfAddition) {
  EventQueue queue;
  kvmix::Random random(1, 1);
  std::uint32_t tag = 0;
  for (; tag < 500; ++tag) queue.Add(random.Below(50), EventKind::kTimer, 0, tag);
  Time last = 0;
  std::uint32_t last_tag = 0;
  std::uint32_t taken = 0;
  for (; !queue.empty(); ++taken) {
    const Event event = queue.Take();
    EXPECT_TRUE(event.time > last || (event.time == last && event.tag() >= last_tag));
    last = event.time;
    last_tag = event.tag();
    if (tag < 1000) queue.Add(last + random.Below(50), EventKind::kTimer, 0, tag++);
  }
  EXPECT_EQ(taken, 1000U);
}

TEST(Histogram, QuantilesAreWithinABucket) {
  Histogram histogram;
  for (Time i = 1; i <= 100'000; ++i) histogram.Record(i * 10);
  EXPECT_NEAR(static_cast<double>(*histogram.Quantile(5000, 10'000)), 500'000, 4000);
  EXPECT_NEAR(static_cast<double>(*histogram.Quantile(9999, 10'000)), 999'900, 8000);
  EXPECT_EQ(histogram.max(), 1'000'000U);
}

TEST(Histogram, HasNoQuantileWithoutValuesAboveIt) {
  Histogram histogram;
  for (Time i = 0; i < 99; ++i) histogram.Record(i);
  EXPECT_FALSE(histogram.Quantile(9900, 10'000));
  histogram.Record(99);
  EXPECT_EQ(histogram.Quantile(9900, 10'000), 98U);
}

}  // namespace
}  // namespace zonemodel
