// Tests which latencies of the model the overhead is subtracted from.

#include "zoneblk/pace.h"

#include <gtest/gtest.h>

#include "model/tests/small_drive.h"

namespace zoneblk {
namespace {

constexpr Time kUs = 1000;

zonemodel::Parameters Less(Time overhead) {
  zonemodel::Json model = zonemodel::SmallDrive();
  model["flash"]["read_spread"] = "30us";
  zonemodel::Parameters parameters = zonemodel::ReadParameters(model);
  TakeOff(&parameters, overhead);
  return parameters;
}

TEST(TakeOff, OverheadBeyondTheFrontEndComesOffTheDieOfARead) {
  const zonemodel::Parameters less = Less(12 * kUs);
  EXPECT_EQ(less.front.write, 0U);
  EXPECT_EQ(less.front.append, 1 * kUs);
  EXPECT_EQ(less.front.read, 0U);
  EXPECT_EQ(less.flash.read_4k, 43 * kUs);
  EXPECT_EQ(less.flash.read_page, 55 * kUs);
}

// The fastest read takes read_4k - read_spread.
TEST(TakeOff, NoTimeOfAReadIsNegative) {
  const zonemodel::Parameters less = Less(1000 * kUs);
  EXPECT_EQ(less.flash.read_4k, less.flash.read_spread);
  EXPECT_EQ(less.flash.read_page, less.flash.read_spread + 12 * kUs);
}

}  // namespace
}  // namespace zoneblk
