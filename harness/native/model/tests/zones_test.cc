#include "model/zones/zones.h"

#include <gtest/gtest.h>

#include <set>

#include "model/tests/small_drive.h"

namespace zonemodel {
namespace {

constexpr Bytes kBlock = 4096;
constexpr Bytes kCapacity = 1 << 20;

class ZonesTest : public testing::Test {
 protected:
  Status Write(std::uint32_t zone, Bytes offset, Bytes bytes) {
    return zones_.Write(zone, offset, bytes, false, &opened_);
  }
  ZoneState State(std::uint32_t zone) { return zones_.at(zone).state; }

  const Parameters parameters_ = ReadParameters(SmallDrive());  // 3 open, 4 active
  Zones zones_{*parameters_.zones, parameters_.flash};
  bool opened_ = false;
  Bytes rest_ = 0;
};

TEST_F(ZonesTest, WritesGoToTheWritePointerUpToTheCapacity) {
  EXPECT_EQ(Write(0, kBlock, kBlock), Status::kInvalidWrite);
  EXPECT_EQ(State(0), ZoneState::kEmpty);
  EXPECT_EQ(Write(0, 0, kBlock), Status::kOk);
  EXPECT_TRUE(opened_);
  EXPECT_EQ(State(0), ZoneState::kImplicit);
  EXPECT_EQ(Write(0, kBlock, kCapacity), Status::kBoundary);
  EXPECT_EQ(Write(0, kBlock, kCapacity - kBlock), Status::kOk);
  EXPECT_FALSE(opened_);
  EXPECT_EQ(State(0), ZoneState::kFull);
  EXPECT_EQ(Write(0, kCapacity, kBlock), Status::kFull);
  EXPECT_EQ(Write(16, 0, kBlock), Status::kOutOfRange);
}

TEST_F(ZonesTest, ActiveLimitRefusesTheFifthZone) {
  for (std::uint32_t zone = 0; zone < 4; ++zone) EXPECT_EQ(Write(zone, 0, kBlock), Status::kOk);
  EXPECT_EQ(State(0), ZoneState::kClosed);  // the open limit closed the oldest
  EXPECT_EQ(Write(4, 0, kBlock), Status::kTooManyActive);
  EXPECT_EQ(zones_.Open(4), Status::kTooManyActive);
  EXPECT_EQ(zones_.Finish(4, &rest_), Status::kTooManyActive);
  EXPECT_EQ(zones_.Finish(0, &rest_), Status::kOk);
  EXPECT_EQ(rest_, kCapacity - kBlock);
  EXPECT_EQ(Write(4, 0, kBlock), Status::kOk);
}

TEST_F(ZonesTest, OpenLimitRefusesWhenNoneIsOpenImplicitly) {
  for (std::uint32_t zone = 0; zone < 3; ++zone) EXPECT_EQ(zones_.Open(zone), Status::kOk);
  EXPECT_EQ(zones_.Open(3), Status::kTooManyOpen);
  EXPECT_EQ(Write(3, 0, kBlock), Status::kTooManyOpen);
  EXPECT_EQ(zones_.Close(1), Status::kOk);
  EXPECT_EQ(Write(3, 0, kBlock), Status::kOk);
  EXPECT_EQ(zones_.Open(1), Status::kOk);  // zone 3 was implicit
  EXPECT_EQ(State(3), ZoneState::kClosed);
}

TEST_F(ZonesTest, TransitionsThatDoNotExistAreRefused) {
  EXPECT_EQ(zones_.Close(0), Status::kInvalidTransition);
  EXPECT_EQ(zones_.Finish(0, &rest_), Status::kOk);
  EXPECT_EQ(zones_.Finish(0, &rest_), Status::kOk);
  EXPECT_EQ(rest_, 0U);
  EXPECT_EQ(zones_.Open(0), Status::kInvalidTransition);
  EXPECT_EQ(zones_.Close(0), Status::kInvalidTransition);
  EXPECT_EQ(zones_.Reset(0), Status::kOk);
  EXPECT_EQ(State(0), ZoneState::kEmpty);
  EXPECT_EQ(zones_.Reset(0), Status::kOk);
  EXPECT_EQ(zones_.at(0).resets, 1U);  // the second found an empty zone
  EXPECT_EQ(zones_.Read(0, kCapacity - kBlock, 2 * kBlock), Status::kBoundary);
}

TEST_F(ZonesTest, AStripeUsesEachDieOfTheZoneOnce) {
  Json model = SmallDrive();
  model["zones"]["ways"] = 1;
  const Parameters narrow = ReadParameters(model);
  const Zones zones(*narrow.zones, narrow.flash);
  for (std::uint32_t zone = 0; zone < 16; ++zone) {
    EXPECT_NE(zones.DieOf(zone, 0), zones.DieOf(zone, 1));
    EXPECT_EQ(zones.DieOf(zone, 0), zones.DieOf(zone, 2));
    EXPECT_EQ(zones.DieOf(zone, 0) / 2, zone % 2);  // groups of dies take turns
    std::set<std::uint32_t> dies;
    for (std::uint64_t unit = 0; unit < 4; ++unit) dies.insert(zones_.DieOf(zone, unit));
    EXPECT_EQ(dies.size(), 4U);
  }
}

TEST_F(ZonesTest, TheOpenLimitClosesTheOldestAlsoAfterAClose) {
  EXPECT_EQ(Write(0, 0, kBlock), Status::kOk);
  EXPECT_EQ(zones_.Close(0), Status::kOk);
  EXPECT_EQ(Write(1, 0, kBlock), Status::kOk);
  EXPECT_EQ(Write(2, 0, kBlock), Status::kOk);
  EXPECT_EQ(Write(0, kBlock, kBlock), Status::kOk);
  EXPECT_EQ(Write(3, 0, kBlock), Status::kOk);
  EXPECT_EQ(State(1), ZoneState::kClosed);
  EXPECT_EQ(State(0), ZoneState::kImplicit);
}

TEST_F(ZonesTest, PreparingAClosedZoneTakesNoOpenZone) {
  for (std::uint32_t zone = 0; zone < 3; ++zone) EXPECT_EQ(zones_.Open(zone), Status::kOk);
  const auto close = [&](std::uint32_t zone) {
    return zones_.Prepare(zone, ZoneState::kClosed, kBlock, false, false);
  };
  EXPECT_EQ(close(3), Status::kOk);
  EXPECT_EQ(close(3), Status::kOk);
  EXPECT_EQ(State(3), ZoneState::kClosed);
  EXPECT_EQ(State(0), ZoneState::kExplicit);
  EXPECT_EQ(close(4), Status::kTooManyActive);
}

}  // namespace
}  // namespace zonemodel
