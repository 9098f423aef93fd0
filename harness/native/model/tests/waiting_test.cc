// Tests of writes that wait for space in the write buffer.

#include <gtest/gtest.h>

#include "model/drive.h"
#include "model/tests/small_drive.h"

namespace zonemodel {
namespace {

constexpr Bytes kUnit = 64 << 10;

// A drive whose buffer holds six program units. There is no simulation of the host.
class Waiting : public testing::Test {
 protected:
  static Parameters Small() {
    Json model = SmallDrive();
    model["buffer"]["size"] = "384KiB";
    model["zones"]["max_open"] = model["zones"]["max_active"] = 0;
    return ReadParameters(model);
  }

  void Submit(Operation operation, std::uint32_t zone, Bytes bytes = 0) {
    const Bytes offset = operation == Operation::kRead ? 0 : drive_.zones()->at(zone).written;
    drive_.Submit(now_, sent_++,
                  {.operation = operation,
                   .conventional = false,
                   .zone = zone,
                   .offset = offset,
                   .bytes = bytes});
  }
  void Append(std::uint32_t zone, int times, Bytes bytes = kUnit) {
    for (int i = 0; i < times; ++i) Submit(Operation::kAppend, zone, bytes);
  }
  // Takes all events. Every command must have ended.
  void Run() {
    while (!events_.empty()) {
      const Event event = events_.Take();
      now_ = event.time;
      if (event.kind() != EventKind::kDone) {
        drive_.Handle(event);
      } else {
        ++done_;
        EXPECT_EQ(drive_.completion(event.tag()).status, Status::kOk);
      }
    }
    EXPECT_EQ(done_, sent_);
  }
  // Returns the bytes that programs must have written: data that has left the buffer, and padding.
  Bytes InUnits() {
    Bytes bytes = drive_.media().host + drive_.media().pad;
    for (std::uint32_t number = 0; number < 16; ++number) bytes -= zone(number).part();
    return bytes;
  }
  const Zone& zone(std::uint32_t number) { return drive_.zones()->at(number); }

  EventQueue events_;
  Drive drive_{Small(), 1, &events_};
  Time now_ = 0;
  std::uint32_t sent_ = 0;
  std::uint32_t done_ = 0;
};

TEST_F(Waiting, AResetDropsWaitingWrites) {
  Append(0, 10);
  Submit(Operation::kReset, 0);
  Run();
  EXPECT_EQ(zone(0).buffered, 0U);
  EXPECT_EQ(drive_.media().programmed, 6 * kUnit);
  Append(0, 16);
  Run();
  EXPECT_EQ(zone(0).programmed, 16 * kUnit);
  EXPECT_EQ(drive_.media().programmed, 22 * kUnit);
}

TEST_F(Waiting, APreparationDropsWaitingWrites) {
  Append(0, 10);
  EXPECT_EQ(drive_.Prepare(0, ZoneState::kClosed, 8 * kUnit, false, false), Status::kOk);
  Run();
  EXPECT_EQ(zone(0).buffered, 8 * kUnit);
  EXPECT_EQ(zone(0).programmed, 8 * kUnit);
  EXPECT_EQ(drive_.media().programmed, 6 * kUnit);
}

TEST_F(Waiting, AFinishProgramsWaitingWrites) {
  Append(0, 10);
  Append(0, 1, 4096);
  Submit(Operation::kFinish, 0);
  Run();
  EXPECT_EQ(zone(0).programmed, 10 * kUnit + 4096);
  EXPECT_EQ(drive_.media().programmed, 16 * kUnit);
  EXPECT_EQ(drive_.media().host + drive_.media().pad, 16 * kUnit);
}

// Partial units fill the buffer, and no program is under way.
TEST_F(Waiting, PartialUnitsMakeRoomForWaitingWrites) {
  for (int round = 0; round < 4; ++round) {
    for (std::uint32_t number = 0; number < 16; ++number) {
      Submit(Operation::kWrite, number, 20 << 10);
      Run();
    }
  }
  EXPECT_GT(drive_.media().pad, 0U);
  EXPECT_EQ(drive_.media().programmed, InUnits());
  // Of two zones, one is written to its end, and one is finished.
  Append(0, 12, kUnit);
  Append(0, 1, (1 << 20) - 12 * kUnit - (80 << 10));
  Submit(Operation::kFinish, 1);
  Run();
  for (std::uint32_t number = 0; number < 2; ++number) {
    EXPECT_EQ(zone(number).state, ZoneState::kFull);
    EXPECT_EQ(zone(number).programmed, zone(number).written);
    EXPECT_EQ(zone(number).part(), 0U);
  }
  EXPECT_EQ(drive_.media().programmed, InUnits());
}

TEST_F(Waiting, APreparationWithManyPartialUnitsLeavesRoom) {
  for (std::uint32_t number = 0; number < 15; ++number) {
    EXPECT_EQ(drive_.Prepare(number, ZoneState::kClosed, 60 << 10, false, false), Status::kOk);
  }
  Append(15, 16);
  Run();
  EXPECT_EQ(zone(15).programmed, 16 * kUnit);
}

// Replays have zones of such capacities.
TEST_F(Waiting, AFinishWithinAShorterLastUnitEnds) {
  Parameters parameters = Small();
  parameters.zones->capacity = 15 * kUnit + 8192;
  Drive drive(parameters, 1, &events_);
  EXPECT_EQ(drive.Prepare(0, ZoneState::kClosed, 15 * kUnit + 4096, false, false), Status::kOk);
  drive.Submit(0, 0, {Operation::kFinish, false, 0, 0, 0});
  int events = 0;
  for (; !events_.empty() && events < 100; ++events) {
    const Event event = events_.Take();
    if (event.kind() != EventKind::kDone) drive.Handle(event);
  }
  EXPECT_LT(events, 100);
  EXPECT_EQ(drive.media().programmed, kUnit);
}

TEST_F(Waiting, AWriteLargerThanTheBufferEnds) {
  Append(0, 2, 512 << 10);
  Run();
  EXPECT_EQ(zone(0).programmed, 16 * kUnit);
}

// Programs that are under way at a reset write data that is gone.
TEST_F(Waiting, ProgramsOfAnEarlierLifeAreNotCounted) {
  Append(0, 4);
  EXPECT_EQ(drive_.Prepare(0, ZoneState::kEmpty, 0, false, false), Status::kOk);
  Append(0, 2);
  bool some = false;
  while (!some) {
    const Event event = events_.Take();
    if (event.kind() == EventKind::kDone) continue;
    drive_.Handle(event);
    some = drive_.media().programmed > 0;
  }
  EXPECT_EQ(zone(0).programmed, 0U);
}

}  // namespace
}  // namespace zonemodel
