// A bounded part of the random schedules. `zlfs-torture faults` runs more.

#include "zlfs/crash/schedule.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace zlfs::crash {
namespace {

TEST(Schedules, LoseNothingUnnamed) {
  ScheduleCounts counts;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    ASSERT_EQ(RunSchedule(seed, &counts), "") << "again: zlfs-torture faults --first=" << seed;
  }
  std::printf("%lu mounts, %lu faults, %lu zones, %lu kills, %lu losses, %lu named\n",
              counts.mounts, counts.faults, counts.zones, counts.kills, counts.losses,
              counts.named);
  // The schedules must have covered the difficult cases.
  EXPECT_GT(counts.kills, 100U);
  EXPECT_GT(counts.losses, 100U);
  EXPECT_GT(counts.named, 0U);
  EXPECT_GT(counts.collected, 0U);
  EXPECT_GT(counts.read_only, 0U);
  EXPECT_GT(counts.lost, 0U);
  EXPECT_GT(counts.reads, 0U);
  EXPECT_GT(counts.saved, 100U);
}

// One metadata zone is offline and one read-only. A mount resets the third and fails.
TEST(Schedules, ARepairAfterAFailedRollOverLosesNothing) {
  ScheduleCounts counts;
  ASSERT_EQ(RunSchedule(1102311, &counts), "");
  EXPECT_EQ(counts.repaired, 1U);
  EXPECT_EQ(counts.named + counts.lost, 0U);
}

// A copy fails although its last write reached the zone, and its zone cannot be reset.
TEST(Schedules, AFailedCopyNeverRefusesAMount) {
  ScheduleCounts counts;
  EXPECT_EQ(RunSchedule(3233040, &counts), "");
}

}  // namespace
}  // namespace zlfs::crash
