#include "zlfs/alloc/allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace zlfs {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kCapacity = 16 * kBlock;

AllocatorSetup Blank(std::uint32_t zones, std::uint32_t budget, const Policy& policy = {}) {
  return {.policy = policy,
          .block_size = kBlock,
          .active_budget = budget,
          .zones = std::vector<ZoneSpace>(zones, ZoneSpace{.capacity = kCapacity})};
}

Request Data(std::uint64_t writer, std::uint8_t lifetime, std::uint64_t blocks) {
  return {.placement = {.cause = Cause::kCompaction, .job = true, .lifetime = lifetime},
          .writer = writer,
          .size = blocks * kBlock};
}

// Blocks that contain only content.
Kept Whole(std::uint64_t size) { return {.live = size, .held = size, .packed = size}; }

// Expects a grant and completes the write.
Decision Write(Allocator* allocator, const Request& request) {
  const Decision decision = allocator->Allocate(request);
  EXPECT_EQ(decision.kind, Decision::Kind::kGrant);
  allocator->Written(decision.zone, Whole(decision.size));
  return decision;
}

// At the limit, a new writer waits for a finish that runs. It neither shares nor finishes a zone.
TEST(Allocator, AWriterAtTheLimitAwaitsAFinish) {
  Allocator allocator(Blank(20, kSharedCauses + 2));
  Write(&allocator, Data(1, 2, 2));
  Write(&allocator, Data(2, 3, 2));
  EXPECT_FALSE(allocator.AwaitsFinish(Data(3, 4, 1)));  // none runs
  const auto zone = allocator.Leave(1, true);
  ASSERT_TRUE(zone);
  EXPECT_EQ(allocator.active_zones(), 2U);
  EXPECT_TRUE(allocator.AwaitsFinish(Data(3, 4, 1)));
  EXPECT_FALSE(allocator.AwaitsFinish(Data(2, 3, 1)));  // has a zone
  EXPECT_FALSE(allocator.Leave(2));
  EXPECT_FALSE(allocator.AwaitsFinish(Data(3, 3, 1)));  // inherits that zone
  EXPECT_TRUE(allocator.AwaitsFinish(Data(3, 4, 1)));
  allocator.Finished(*zone);
  EXPECT_FALSE(allocator.AwaitsFinish(Data(3, 4, 1)));
  EXPECT_EQ(allocator.active_zones(), 1U);
  EXPECT_NE(Write(&allocator, Data(3, 4, 1)).zone, *zone);
}

TEST(Allocator, GivesEachWriterAZoneOfItsOwn) {
  Allocator allocator(Blank(30, 10));
  const auto first = Write(&allocator, Data(1, 3, 2));
  const auto second = Write(&allocator, Data(2, 3, 2));
  EXPECT_NE(first.zone, second.zone);
  EXPECT_EQ(Write(&allocator, Data(1, 3, 1)).zone, first.zone);
  allocator.Leave(1);
  // Only a writer with the same lifetime continues in the zone.
  EXPECT_NE(Write(&allocator, Data(3, 5, 1)).zone, first.zone);
  EXPECT_EQ(Write(&allocator, Data(4, 3, 1)).zone, first.zone);
}

TEST(Allocator, GrantsNoMoreThanTheZoneHas) {
  Allocator allocator(Blank(30, 10));
  const auto first = Write(&allocator, Data(1, 3, 100));
  EXPECT_EQ(first.size, kCapacity);
  EXPECT_EQ(allocator.zone(first.zone).use, ZoneUse::kFull);
  EXPECT_NE(Write(&allocator, Data(1, 3, 1)).zone, first.zone);
}

TEST(Allocator, KeepsActiveZonesForTheSharedCauses) {
  Allocator allocator(Blank(40, 5));
  for (std::uint64_t writer = 1; writer <= 4; ++writer) Write(&allocator, Data(writer, 3, 1));
  EXPECT_EQ(allocator.active_zones(), 2U);
  for (const Cause cause : {Cause::kWal, Cause::kOther, Cause::kGc}) {
    Write(&allocator, {.placement = {.cause = cause}, .size = kBlock});
  }
  EXPECT_EQ(allocator.active_zones(), 5U);
}

TEST(Allocator, SharesTheZoneOfTheNearestLifetime) {
  Allocator allocator(Blank(40, 5));
  const auto shortest = Write(&allocator, Data(1, 2, 1));
  const auto longest = Write(&allocator, Data(2, 5, 1));
  EXPECT_EQ(Write(&allocator, Data(3, 3, 1)).zone, shortest.zone);
  EXPECT_EQ(Write(&allocator, Data(4, 4, 1)).zone, longest.zone);
}

TEST(Allocator, FinishesTheFullestUnusedZone) {
  Allocator allocator(Blank(40, 5, {.on_active_limit = OnActiveLimit::kFinish}));
  const auto emptier = Write(&allocator, Data(1, 2, 1));
  const auto fuller = Write(&allocator, Data(2, 5, 3));
  allocator.Leave(1);
  allocator.Leave(2);
  const Decision decision = allocator.Allocate(Data(3, 3, 1));
  ASSERT_EQ(decision.kind, Decision::Kind::kFinish);
  EXPECT_EQ(decision.zone, fuller.zone);
  allocator.Finished(decision.zone);
  const auto next = Write(&allocator, Data(3, 3, 1));
  EXPECT_NE(next.zone, emptier.zone);
  EXPECT_NE(next.zone, fuller.zone);
}

TEST(Allocator, WaitsForAWriterToLeave) {
  Allocator allocator(Blank(40, 5, {.on_active_limit = OnActiveLimit::kWait}));
  Write(&allocator, Data(1, 2, 1));
  const auto other = Write(&allocator, Data(2, 5, 1));
  Request request = Data(3, 5, 1);
  EXPECT_EQ(Write(&allocator, request).zone, other.zone) << "compactions share";
  request.placement.cause = Cause::kFlush;
  EXPECT_EQ(allocator.Allocate(request).kind, Decision::Kind::kWait);
  allocator.Leave(2);
  EXPECT_EQ(Write(&allocator, request).zone, other.zone);
}

TEST(Allocator, WaitsForAZoneWhoseLastBlocksAreBeingWritten) {
  Allocator allocator(Blank(40, 4));  // one zone for data
  const Decision last = allocator.Allocate(Data(1, 3, 16));
  ASSERT_EQ(last.kind, Decision::Kind::kGrant);
  EXPECT_EQ(allocator.Allocate(Data(2, 3, 1)).kind, Decision::Kind::kWait);
  allocator.Written(last.zone, Whole(last.size));
  EXPECT_NE(Write(&allocator, Data(2, 3, 1)).zone, last.zone);
}

TEST(Allocator, SharedCausesTakeOverAnIdleWritersZone) {
  // The mount finds as many active zones as the limit allows. Data writers take all of them before
  // the log needs one.
  AllocatorSetup setup = Blank(40, 4);
  for (std::uint32_t zone = 0; zone < 4; ++zone) {
    setup.zones[zone].use = ZoneUse::kActive;
    setup.zones[zone].written = kBlock;
  }
  Allocator allocator(setup);
  for (std::uint64_t writer = 1; writer <= 4; ++writer) Write(&allocator, Data(writer, 0, 1));
  const auto log = Write(&allocator, {.placement = {.cause = Cause::kWal}, .size = kBlock});
  EXPECT_EQ(allocator.active_zones(), 4U);
  for (std::uint64_t writer = 1; writer <= 4; ++writer) {
    EXPECT_NE(Write(&allocator, Data(writer, 0, 1)).zone, log.zone);
  }
}

TEST(Allocator, FinishesWhatAWriterLeavesNearlyFull) {
  for (const auto& [remaining, finished] : {std::pair(25, false), std::pair(26, true)}) {
    Allocator allocator(
        Blank(40, 5, {.finish_remaining_pct = static_cast<std::uint8_t>(remaining)}));
    const auto zone = Write(&allocator, Data(1, 2, 12)).zone;  // 25 % remain
    const auto leave = allocator.Leave(1);
    EXPECT_EQ(leave.has_value(), finished) << remaining;
    if (leave) {
      EXPECT_EQ(*leave, zone);
      allocator.Finished(zone);
      EXPECT_EQ(allocator.active_zones(), 0U);
    }
  }
}

TEST(Allocator, IgnoresLifetimesByPolicy) {
  Allocator allocator(Blank(40, 10, {.lifetimes = false}));
  const auto first = Write(&allocator, Data(1, 2, 1));
  allocator.Leave(1);
  EXPECT_EQ(Write(&allocator, Data(2, 5, 1)).zone, first.zone);
}

TEST(Allocator, KeepsEmptyZonesForWhatFreesSpace) {
  Allocator allocator(Blank(20, 0));
  const auto fill = [&allocator](Cause cause) {
    for (;;) {
      const Decision decision =
          allocator.Allocate({.placement = {.cause = cause}, .writer = 1, .size = kCapacity});
      if (decision.kind != Decision::Kind::kGrant) return allocator.empty_zones();
      allocator.Written(decision.zone, Whole(decision.size));
    }
  };
  const auto growth = fill(Cause::kWal);
  const auto compaction = fill(Cause::kCompaction);
  const auto flush = fill(Cause::kFlush);
  const auto manifest = fill(Cause::kOther);
  const auto collector = fill(Cause::kGc);
  EXPECT_GT(growth, compaction);
  EXPECT_GE(compaction, flush);
  EXPECT_GT(flush, manifest);
  EXPECT_EQ(manifest, 1U);
  EXPECT_EQ(collector, 0U);
}

// Zones and the bytes written there, for one kind of content.
using Places = std::vector<std::pair<std::uint32_t, std::uint64_t>>;

// Writes as much of `size` as the allocator grants. Returns whether it wrote everything.
bool WriteAll(Allocator* allocator, Request request, std::uint64_t size, Places* places) {
  for (request.size = size; request.size > 0;) {
    const Decision decision = allocator->Allocate(request);
    if (decision.kind != Decision::Kind::kGrant) return false;
    allocator->Written(decision.zone, Whole(decision.size));
    if (request.placement.cause == Cause::kWal) allocator->LogsGrew(decision.size);
    places->emplace_back(decision.zone, decision.size);
    request.size -= decision.size;
  }
  return true;
}

// Frees the `count` oldest places.
void FreeFirst(Allocator* allocator, std::size_t count, Places* places) {
  for (std::size_t i = 0; i < count; ++i) {
    allocator->Freed((*places)[i].first, Whole((*places)[i].second));
  }
  places->erase(places->begin(), places->begin() + static_cast<std::ptrdiff_t>(count));
}

// Whether a database that dies now can be opened: the zones that a mount finds must have space to
// flush all WALs.
bool CanOpen(const Allocator& dead, std::uint32_t budget, std::uint64_t logs) {
  AllocatorSetup setup = Blank(dead.zone_count(), budget);
  setup.log_bytes = logs;
  for (std::uint32_t i = 0; i < dead.zone_count(); ++i) {
    const ZoneSpace& zone = dead.zone(i);
    if (zone.kept.held == 0) continue;  // a mount resets it
    setup.zones[i].written = zone.written;
    setup.zones[i].kept = zone.kept;
    setup.zones[i].use = zone.use;
  }
  Allocator opened(setup);
  Places places;
  return WriteAll(&opened, {.placement = {.cause = Cause::kFlush}, .writer = 1}, logs, &places) &&
         WriteAll(&opened, {.placement = {.cause = Cause::kOther}}, kBlock, &places);
}

TEST(Allocator, WhatIsInWalsCanBeFlushedWhenTheDatabaseIsOpened) {
  constexpr Request kLog{.placement = {.cause = Cause::kWal}};
  constexpr Request kFlush{.placement = {.cause = Cause::kFlush}, .writer = 1};
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::uint32_t budget = seed % 3 == 0 ? 0 : static_cast<std::uint32_t>(4 + seed % 7);
    Allocator allocator(Blank(static_cast<std::uint32_t>(16 + seed % 40), budget));
    std::mt19937_64 random(seed);
    Places logs;
    Places data;
    const auto expect_opens = [&] {
      ASSERT_TRUE(CanOpen(allocator, budget, logs.size() * kBlock)) << "seed " << seed;
    };
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t blocks = 1 + random() % 40;
      if (random() % 3 == 0)
        refused += !WriteAll(&allocator, Data(2, 3, 0), blocks * kBlock, &data);
      expect_opens();
      for (std::uint64_t i = 0; i < blocks; ++i) {
        refused += !WriteAll(&allocator, kLog, kBlock, &logs);
      }
      expect_opens();
      const std::uint64_t flushed = random() % (logs.size() + 1);
      if (WriteAll(&allocator, kFlush, flushed * kBlock, &data)) {
        expect_opens();
        allocator.LogsShrank(flushed * kBlock);
        FreeFirst(&allocator, flushed, &logs);
      }
      expect_opens();
      if (random() % 8 == 0) FreeFirst(&allocator, random() % (data.size() + 1), &data);
      for (const std::uint32_t zone : allocator.Resettable(random() % 2 == 0)) {
        allocator.BeginReset(zone);
        allocator.ResetDone(zone);
      }
    }
  }
  EXPECT_GT(refused, 10000);  // proves that the device was full
}

TEST(Allocator, SpaceIsLowBelowTheStartAndNearTheReserve) {
  for (const auto& [start_pct, enough] : {std::pair(25, 10U), std::pair(1, 6U)}) {
    Allocator allocator(Blank(40, 0, {.gc_start_pct = static_cast<std::uint8_t>(start_pct)}));
    const auto fill = [&] { return Write(&allocator, Data(1, 3, 16)).zone; };
    while (allocator.empty_zones() > enough) fill();
    EXPECT_FALSE(allocator.LowSpace()) << start_pct;
    const std::uint32_t zone = fill();
    EXPECT_TRUE(allocator.LowSpace()) << start_pct;
    allocator.Freed(zone, Whole(kCapacity));
    allocator.BeginReset(zone);
    EXPECT_FALSE(allocator.LowSpace()) << "a reset returns the zone soon";
    allocator.ResetDone(zone);
    EXPECT_FALSE(allocator.LowSpace());
    const std::uint32_t failing = fill();
    allocator.Freed(failing, Whole(kCapacity));
    allocator.BeginReset(failing);
    allocator.Retire(failing);
    EXPECT_TRUE(allocator.LowSpace()) << "the reset failed";
  }
}

TEST(Allocator, ChoosesVictims) {
  for (const Victim policy : {Victim::kGarbage, Victim::kCostBenefit}) {
    Allocator allocator(Blank(40, 0, {.gc_victim = policy}));
    std::vector<std::uint32_t> zones;
    for (std::uint64_t i = 0; i < 8; ++i) zones.push_back(Write(&allocator, Data(1, 3, 16)).zone);
    EXPECT_FALSE(allocator.PickVictim());          // nothing to gain
    allocator.Freed(zones[0], Whole(6 * kBlock));  // old, a little garbage
    allocator.Freed(zones[7], Whole(8 * kBlock));  // new, a little more
    const auto victim = allocator.PickVictim();
    ASSERT_TRUE(victim);
    EXPECT_EQ(*victim, policy == Victim::kGarbage ? zones[7] : zones[0]);
  }
}

TEST(Allocator, ABrokenZoneTakesNoMoreAndIsResetWhenItIsEmpty) {
  Allocator allocator(Blank(40, 10));
  Write(&allocator, Data(1, 3, 2));
  const Decision decision = allocator.Allocate(Data(1, 3, 2));
  allocator.Failed(decision.zone, decision.size, kBlock);
  EXPECT_NE(Write(&allocator, Data(1, 3, 1)).zone, decision.zone);
  allocator.Settled(decision.zone, Allocator::After::kActive);
  EXPECT_TRUE(allocator.Resettable(false).empty());
  allocator.Freed(decision.zone, Whole(2 * kBlock));
  EXPECT_EQ(allocator.Resettable(false), std::vector<std::uint32_t>{decision.zone});
}

TEST(Allocator, AFailedZoneIsNotResetBeforeItSettled) {
  for (const auto after : {Allocator::After::kActive, Allocator::After::kClosed}) {
    Allocator allocator(Blank(40, 10));
    const Decision decision =
        allocator.Allocate({.placement = {.cause = Cause::kOther}, .size = 2 * kBlock});
    allocator.Failed(decision.zone, decision.size, kBlock);
    EXPECT_TRUE(allocator.Resettable(true).empty());
    EXPECT_EQ(allocator.active_zones(), 1U);
    allocator.Settled(decision.zone, after);
    EXPECT_EQ(allocator.Resettable(false), std::vector<std::uint32_t>{decision.zone});
  }
}

TEST(Allocator, APieceCountsByItsContentWhenAVictimIsChosen) {
  Allocator allocator(Blank(40, 0));
  const Request log{.placement = {.cause = Cause::kWal}, .size = kBlock};
  std::uint32_t zone = 0;
  for (int piece = 0; piece < 16; ++piece) {
    const Decision decision = allocator.Allocate(log);
    zone = decision.zone;
    allocator.Written(zone, {.live = 100, .held = kBlock, .packed = 100});
  }
  const auto data = Write(&allocator, Data(1, 3, 16));
  // Half of the data zone is garbage, but nothing of the log zone.
  allocator.Freed(data.zone, Whole(8 * kBlock));
  EXPECT_EQ(allocator.PickVictim(), zone);
  EXPECT_TRUE(allocator.Resettable(true).empty());
}

// Makes a long random sequence of calls. Returns the decisions as text.
std::string RandomRun(const Policy& policy, std::uint32_t budget, std::uint64_t seed) {
  Allocator allocator(Blank(48, budget, policy));
  std::mt19937_64 random(seed);
  std::map<std::uint64_t, std::vector<Decision>> files;
  std::uint64_t writer = 10;
  std::string decisions;
  for (int step = 0; step < 4000; ++step) {
    const std::uint64_t choice = random() % 10;
    if (choice < 6) {
      Request request =
          Data(writer - random() % 3, static_cast<std::uint8_t>(random() % 6), 1 + random() % 20);
      constexpr Cause kShared[] = {Cause::kWal, Cause::kOther, Cause::kGc};
      if (choice == 5) request.placement.cause = kShared[random() % kSharedCauses];
      const Decision decision = allocator.Allocate(request);
      decisions += std::to_string(static_cast<int>(decision.kind)) + "," +
                   std::to_string(decision.zone) + "," + std::to_string(decision.size) + ";";
      if (decision.kind == Decision::Kind::kGrant) {
        allocator.Written(decision.zone, {decision.size - 7, decision.size, decision.size});
        files[writer].push_back(decision);
      } else if (decision.kind == Decision::Kind::kFinish) {
        allocator.Finished(decision.zone);
      }
    } else if (choice < 8) {
      if (const auto zone = allocator.Leave(writer)) allocator.Finished(*zone);
      ++writer;
    } else if (!files.empty()) {
      const auto file = files.begin();
      for (const Decision& d : file->second) allocator.Freed(d.zone, {d.size - 7, d.size, d.size});
      files.erase(file);
      for (const std::uint32_t zone : allocator.Resettable(random() % 4 == 0)) {
        allocator.BeginReset(zone);
        allocator.ResetDone(zone);
      }
    }
    if (budget != 0) {
      EXPECT_LE(allocator.active_zones(), budget);
    }
    std::uint32_t active = 0;
    std::uint32_t empty = 0;
    for (std::uint32_t zone = 0; zone < allocator.zone_count(); ++zone) {
      const ZoneSpace& space = allocator.zone(zone);
      active += space.active;
      empty += space.use == ZoneUse::kEmpty;
      EXPECT_LE(space.kept.live, space.kept.held);
      EXPECT_LE(space.kept.held, space.written);
      EXPECT_LE(space.written + space.in_flight, space.capacity);
    }
    EXPECT_EQ(active, allocator.active_zones());
    EXPECT_EQ(empty, allocator.empty_zones());
  }
  return decisions;
}

TEST(Allocator, NeverExceedsTheLimitAndDecidesTheSameAgain) {
  for (const OnActiveLimit on_limit :
       {OnActiveLimit::kShare, OnActiveLimit::kFinish, OnActiveLimit::kWait}) {
    for (const std::uint32_t budget : {0U, 4U, 6U, 12U}) {
      const Policy policy{.finish_remaining_pct = 10, .on_active_limit = on_limit};
      EXPECT_EQ(RandomRun(policy, budget, 5), RandomRun(policy, budget, 5));
      EXPECT_NE(RandomRun(policy, budget, 5), RandomRun(policy, budget, 6));
    }
  }
}

}  // namespace
}  // namespace zlfs
