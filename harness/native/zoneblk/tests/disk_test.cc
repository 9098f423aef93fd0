// Tests of the kernel's requests on a small modelled drive: times, results, states of zones, data
// to move.

#include "zoneblk/disk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "model/tests/small_drive.h"

namespace zoneblk {
namespace {

constexpr Time kUs = 1000;
constexpr Time kMs = 1'000'000;
constexpr Bytes kKiB = 1024;
constexpr Bytes kZone = 2048 * kKiB;      // size
constexpr Bytes kCapacity = 1024 * kKiB;  // of a zone
constexpr std::uint32_t kDepth = 32;

class DiskTest : public testing::Test {
 protected:
  explicit DiskTest(bool zoned = true, const zonemodel::Json& model = zonemodel::SmallDrive())
      : parameters_(zonemodel::ReadParameters(model)), disk_(parameters_, zoned, kDepth, 1) {}

  // Submits a request alone, and returns its result.
  Done Do(Op op, Bytes offset, Bytes bytes = 0) {
    move_ = disk_.Submit(now_, 0, {.op = op, .offset = offset, .bytes = bytes});
    std::vector<Done> done;
    while (done.empty()) {
      if (disk_.Next() == zonemodel::kNever) {
        ADD_FAILURE() << "the request never ends";
        return {};
      }
      now_ = std::max(now_, disk_.Next());
      disk_.Advance(now_, &done);
    }
    EXPECT_EQ(done.size(), 1U);
    EXPECT_EQ(disk_.Next(), zonemodel::kNever);
    now_ += kMs;
    return done.front();
  }
  static Time Latency(const Done& done) { return done.due - done.arrival; }
  blk_zone Zone(std::size_t number) { return disk_.Report(number * kZone, 1).at(0); }

  const zonemodel::Parameters parameters_;
  Disk disk_;
  Time now_ = 5 * kMs;
  zoneblk::Move move_;
};

class ConventionalTest : public DiskTest {
 protected:
  ConventionalTest() : DiskTest(false) {}
};

class SmallBlockTest : public DiskTest {
 protected:
  SmallBlockTest() : DiskTest(false, Model()) {}
  static zonemodel::Json Model() {
    zonemodel::Json model = zonemodel::SmallDrive();
    model["front"]["logical_block"] = "512B";
    return model;
  }
};

TEST_F(DiskTest, CommandsTakeTheTimesOfTheModel) {
  EXPECT_EQ(Latency(Do(Op::kWrite, 0, 4 * kKiB)), 12 * kUs);  // opens the zone
  EXPECT_EQ(Latency(Do(Op::kWrite, 4 * kKiB, 4 * kKiB)), 10 * kUs);
  EXPECT_EQ(Latency(Do(Op::kAppend, 0, 4 * kKiB)), 13 * kUs);
  EXPECT_EQ(Latency(Do(Op::kFlush, 0)), 5 * kUs);
  EXPECT_EQ(Latency(Do(Op::kReport, 0)), 20 * kUs);
  EXPECT_EQ(Latency(Do(Op::kOpen, kZone)), 9 * kUs);
  EXPECT_EQ(Latency(Do(Op::kClose, 0)), 11 * kUs);
  EXPECT_GE(Latency(Do(Op::kFinish, 0)), 500 * kUs);
  EXPECT_GE(Latency(Do(Op::kReset, 0)), 2 * kMs);
}

TEST_F(DiskTest, ResultsComeWhenTheyAreDueAndNotBefore) {
  disk_.Submit(now_, 3, {.op = Op::kWrite, .offset = 0, .bytes = 4 * kKiB});
  disk_.Submit(now_, 4, {.op = Op::kWrite, .offset = kZone, .bytes = 4 * kKiB});
  std::vector<Done> done;
  disk_.Advance(now_ + 12 * kUs - 1, &done);
  EXPECT_TRUE(done.empty());
  EXPECT_EQ(disk_.Next(), now_ + 12 * kUs);
  disk_.Advance(now_ + 12 * kUs, &done);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].tag, 3U);
  disk_.Advance(now_ + kMs, &done);  // late
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[1].tag, 4U);
  EXPECT_EQ(done[1].due, now_ + 17 * kUs);  // after the other one in the serial stage
}

TEST_F(DiskTest, NextIsNeverWithoutARequestUnderWay) {
  for (Bytes at = 0; at < 64 * kKiB; at += 4 * kKiB) Do(Op::kWrite, at, 4 * kKiB);
  // The die still programs what is in the buffer.
  EXPECT_EQ(disk_.Next(), zonemodel::kNever);
}

TEST_F(DiskTest, WritesMoveDataToTheirPlace) {
  Do(Op::kWrite, kZone, 8 * kKiB);
  EXPECT_EQ(move_.way, Move::Way::kToContents);
  EXPECT_EQ(move_.offset, kZone);
  EXPECT_EQ(move_.bytes, 8 * kKiB);
  const Done done = Do(Op::kAppend, kZone, 4 * kKiB);
  EXPECT_EQ(done.offset, kZone + 8 * kKiB);
  EXPECT_EQ(move_.offset, kZone + 8 * kKiB);
}

TEST_F(DiskTest, ARefusedWriteMovesNothing) {
  EXPECT_EQ(Do(Op::kWrite, 4 * kKiB, 4 * kKiB).error, EIO);  // not at the write pointer
  EXPECT_EQ(move_.way, Move::Way::kNone);
  EXPECT_EQ(disk_.count(Op::kWrite).errors, 1U);
  EXPECT_EQ(disk_.count(Op::kWrite).bytes, 0U);
  EXPECT_EQ(Do(Op::kWrite, 0, kCapacity + 4 * kKiB).error, EIO);
  EXPECT_EQ(Do(Op::kWrite, 16 * kZone, 4 * kKiB).error, EIO);
  EXPECT_EQ(move_.way, Move::Way::kNone);
}

TEST_F(DiskTest, ARefusedRequestTakesItsOwnTime) {
  EXPECT_EQ(Latency(Do(Op::kRead, 16 * kZone, 4 * kKiB)), 5 * kUs);
  EXPECT_EQ(Latency(Do(Op::kWrite, 16 * kZone, 4 * kKiB)), 10 * kUs);
  EXPECT_EQ(Latency(Do(Op::kAppend, 16 * kZone, 4 * kKiB)), 13 * kUs);
}

TEST_F(DiskTest, ReadsGetZerosWhereNothingIsWritten) {
  Do(Op::kWrite, 0, 8 * kKiB);
  EXPECT_EQ(Do(Op::kRead, 4 * kKiB, 16 * kKiB).error, 0);
  EXPECT_EQ(move_.way, Move::Way::kFromContents);
  EXPECT_EQ(move_.offset, 4 * kKiB);
  EXPECT_EQ(move_.bytes, 4 * kKiB);
  EXPECT_EQ(move_.zeros, 12 * kKiB);
  // A reset hides old data, and a finish adds no data.
  Do(Op::kReset, 0);
  Do(Op::kRead, 0, 8 * kKiB);
  EXPECT_EQ(move_.bytes, 0U);
  EXPECT_EQ(move_.zeros, 8 * kKiB);
  Do(Op::kWrite, 0, 4 * kKiB);
  Do(Op::kFinish, 0);
  Do(Op::kRead, 0, 8 * kKiB);
  EXPECT_EQ(move_.bytes, 4 * kKiB);
}

TEST_F(DiskTest, ReadsBeyondTheCapacitySucceed) {
  EXPECT_EQ(Do(Op::kRead, 16 * kZone - 4 * kKiB, 4 * kKiB).error, 0);
  EXPECT_EQ(move_.zeros, 4 * kKiB);
  EXPECT_EQ(Do(Op::kRead, kCapacity - 4 * kKiB, 8 * kKiB).error, 0);
  EXPECT_EQ(move_.zeros, 8 * kKiB);
  EXPECT_EQ(Do(Op::kRead, 16 * kZone, 4 * kKiB).error, EIO);
  EXPECT_EQ(move_.way, Move::Way::kNone);
}

TEST_F(DiskTest, ReportHasStatesWritePointersAndCapacities) {
  Do(Op::kWrite, 0, 4 * kKiB);
  Do(Op::kOpen, kZone);
  Do(Op::kWrite, 2 * kZone, 8 * kKiB);
  Do(Op::kClose, 2 * kZone);
  Do(Op::kFinish, 3 * kZone);
  const std::vector<blk_zone> zones = disk_.Report(0, 5);
  ASSERT_EQ(zones.size(), 5U);
  const std::array conditions = {BLK_ZONE_COND_IMP_OPEN, BLK_ZONE_COND_EXP_OPEN,
                                 BLK_ZONE_COND_CLOSED, BLK_ZONE_COND_FULL, BLK_ZONE_COND_EMPTY};
  const std::array<Bytes, 5> pointers = {4 * kKiB, kZone, 2 * kZone + 8 * kKiB, 4 * kZone,
                                         4 * kZone};
  for (std::size_t i = 0; i < zones.size(); ++i) {
    EXPECT_EQ(zones[i].start, i * kZone / 512);
    EXPECT_EQ(zones[i].len, kZone / 512);
    EXPECT_EQ(zones[i].capacity, kCapacity / 512);
    EXPECT_EQ(zones[i].wp, pointers.at(i) / 512) << i;
    EXPECT_EQ(zones[i].cond, conditions.at(i)) << i;
    EXPECT_EQ(zones[i].type, BLK_ZONE_TYPE_SEQWRITE_REQ);
  }
  EXPECT_EQ(disk_.Report(14 * kZone, 5).size(), 2U);
}

TEST_F(DiskTest, LimitsHaveTheKernelsErrors) {
  for (std::size_t zone = 0; zone < 3; ++zone) Do(Op::kOpen, zone * kZone);
  EXPECT_EQ(Do(Op::kOpen, 3 * kZone).error, ETOOMANYREFS);
  Do(Op::kWrite, 0, 4 * kKiB);
  Do(Op::kClose, 0);
  EXPECT_EQ(Do(Op::kOpen, 3 * kZone).error, 0);
  Do(Op::kClose, kZone);
  EXPECT_EQ(Do(Op::kWrite, 4 * kZone, 4 * kKiB).error, EOVERFLOW);
}

TEST_F(DiskTest, ResetOfAllZonesWaitsForEach) {
  for (std::size_t zone = 0; zone < 3; ++zone) Do(Op::kWrite, zone * kZone, 512 * kKiB);
  const Done done = Do(Op::kResetAll, 0);
  EXPECT_EQ(done.error, 0);
  EXPECT_GE(Latency(done), 15 * kMs);  // one after the other, 5 ms each
  for (std::size_t zone = 0; zone < 16; ++zone) {
    EXPECT_EQ(Zone(zone).cond, BLK_ZONE_COND_EMPTY);
  }
  EXPECT_EQ(disk_.count(Op::kResetAll).commands, 1U);
  EXPECT_EQ(Do(Op::kResetAll, 0).error, 0);  // nothing to reset
}

TEST_F(DiskTest, AFinishOrResetIsAloneInItsZone) {
  const Request write{.op = Op::kWrite, .offset = 0, .bytes = 4 * kKiB};
  const auto error = [&](std::uint32_t tag) {
    std::vector<Done> done;
    for (int i = 0; i < 100; ++i) disk_.Advance(now_ += kMs, &done);
    const auto at = std::ranges::find(done, tag, &Done::tag);
    return at == done.end() ? -1 : at->error;
  };
  for (const Op op : {Op::kFinish, Op::kReset, Op::kResetAll}) {
    Do(Op::kReset, 0);
    disk_.Submit(now_, 1, write);
    disk_.Submit(now_, 2, {.op = op, .offset = 0, .bytes = 0});
    EXPECT_EQ(error(2), EIO);
    EXPECT_EQ(Zone(0).wp, 8U);  // the write went on
    disk_.Submit(now_, 1, {.op = op, .offset = 0, .bytes = 0});
    disk_.Submit(now_, 2, write);
    disk_.Submit(now_, 3, {.op = Op::kReset, .offset = 0, .bytes = 0});
    disk_.Submit(now_, 4, {.op = Op::kWrite, .offset = kZone, .bytes = 4 * kKiB});
    EXPECT_EQ(error(op == Op::kFinish ? 3 : 2), EIO);
    EXPECT_EQ(Do(Op::kReset, 0).error, 0);
    EXPECT_EQ(Do(Op::kReset, kZone).error, 0);
    EXPECT_EQ(Do(Op::kResetAll, 0).error, 0);
  }
}

TEST_F(DiskTest, RefusesZonesThatDoNotFit) {
  zonemodel::Parameters parameters = parameters_;
  parameters.zones->size = kZone + kCapacity;
  EXPECT_THROW(Disk(parameters, true, kDepth, 1), zonemodel::BadInput);
  parameters.zones->size = kZone;
  parameters.zones->count = zonemodel::kMostTags - kDepth + 1;
  EXPECT_THROW(Disk(parameters, true, kDepth, 1), zonemodel::BadInput);
  EXPECT_NO_THROW(Disk(parameters, false, kDepth, 1));
}

TEST_F(DiskTest, HasRequestsOfZonesAndNoDiscards) {
  EXPECT_TRUE(disk_.Supports(Op::kReset));
  EXPECT_FALSE(disk_.Supports(Op::kDiscard));
  EXPECT_EQ(disk_.capacity(), 16 * kCapacity);
}

TEST_F(DiskTest, CountsHoldCommandsAndBytes) {
  Do(Op::kWrite, 0, 8 * kKiB);
  Do(Op::kAppend, 0, 4 * kKiB);
  Do(Op::kRead, 0, 12 * kKiB);
  EXPECT_EQ(disk_.count(Op::kWrite).bytes, 8 * kKiB);
  EXPECT_EQ(disk_.count(Op::kAppend).bytes, 4 * kKiB);
  EXPECT_EQ(disk_.count(Op::kRead).bytes, 12 * kKiB);
  EXPECT_EQ(disk_.media().host, 12 * kKiB);
}

TEST_F(ConventionalTest, AcceptsRandomWritesAndDiscards) {
  EXPECT_EQ(disk_.size(), 65536 * kKiB);
  EXPECT_EQ(Latency(Do(Op::kWrite, 40 * kKiB, 4 * kKiB)), 10 * kUs);
  EXPECT_EQ(move_.offset, 40 * kKiB);
  EXPECT_EQ(Do(Op::kRead, 0, 64 * kKiB).error, 0);
  EXPECT_EQ(move_.bytes, 64 * kKiB);
  EXPECT_EQ(Do(Op::kDiscard, 8 * kKiB, 16 * kKiB).error, 0);
  EXPECT_EQ(move_.way, Move::Way::kDiscard);
  EXPECT_EQ(Do(Op::kDiscard, disk_.size(), 4 * kKiB).error, EIO);
  EXPECT_EQ(move_.way, Move::Way::kNone);
}

TEST_F(ConventionalTest, BeginsUsed) {
  EXPECT_EQ(disk_.media().host + disk_.media().moved + disk_.media().erases, 0U);
  // As before a run, no page holds data.
  ASSERT_EQ(Do(Op::kDiscard, 0, disk_.size()).error, 0);
  for (Bytes offset = 0; offset < disk_.size() / 8; offset += 256 * kKiB) {
    ASSERT_EQ(Do(Op::kWrite, offset, 256 * kKiB).error, 0);
  }
  EXPECT_GT(disk_.media().erases, 0U);
  EXPECT_EQ(disk_.media().moved, 0U);
}

TEST_F(SmallBlockTest, WritesSmallerThanAPageOfTheMapEnd) {
  for (Bytes i = 0; i < 40; ++i) {
    now_ += 10 * kMs;  // nothing is under way
    EXPECT_EQ(Latency(Do(Op::kWrite, i * 16 * kKiB, 512)), 10 * kUs) << i;
  }
}

TEST_F(SmallBlockTest, WritesSmallerThanAPageOfTheMapProgramWholePages) {
  for (Bytes i = 0; i < 16; ++i) Do(Op::kWrite, i * 4 * kKiB, 512);
  Do(Op::kWrite, 512, 4 * kKiB);  // parts of two pages
  now_ += 10 * kMs;               // programs end
  Do(Op::kFlush, 0);
  const zonemodel::Media& media = disk_.media();
  EXPECT_EQ(media.host, 12 * kKiB);
  EXPECT_EQ(media.host + media.pad, 72 * kKiB);
  // The two pages of the last write wait in the buffer for a whole unit.
  EXPECT_EQ(media.programmed + 8 * kKiB, media.host + media.pad + media.moved);
}

TEST_F(ConventionalTest, HasNoZones) {
  for (const Op op : {Op::kReport, Op::kAppend, Op::kOpen, Op::kReset, Op::kResetAll}) {
    EXPECT_FALSE(disk_.Supports(op));
  }
  EXPECT_TRUE(disk_.Supports(Op::kDiscard));
  EXPECT_EQ(disk_.capacity(), disk_.size());
}

// A server sleeps until Next(). This sends random requests to two equal disks. One is advanced at
// Next() only, the other one also just before it.
class Sleeps : public testing::TestWithParam<bool> {
 protected:
  // Returns a request that is valid in any order.
  Request Draw() {
    const Bytes pages = (GetParam() ? 2 * kCapacity : sleeper_.size()) / (4 * kKiB);
    const Bytes bytes = (1 + random_.Below(64)) * 4 * kKiB;
    if (random_.Below(2) == 0) {
      return {.op = Op::kRead, .offset = random_.Below(pages - 64) * 4 * kKiB, .bytes = bytes};
    }
    if (!GetParam()) {
      return {.op = Op::kWrite, .offset = random_.Below(pages - 64) * 4 * kKiB, .bytes = bytes};
    }
    const Bytes zone = random_.Below(3) * kZone;
    constexpr std::array kOps = {Op::kAppend, Op::kAppend, Op::kAppend, Op::kFinish, Op::kReset};
    return {.op = kOps.at(random_.Below(kOps.size())), .offset = zone, .bytes = bytes};
  }

  void Submit(std::uint32_t tag) {
    Request request = Draw();
    if (request.op == Op::kFinish || request.op == Op::kReset) request.bytes = 0;
    sleeper_.Submit(now_, tag, request);
    watcher_.Submit(now_, tag, request);
  }

  const zonemodel::Parameters parameters_ = zonemodel::ReadParameters(zonemodel::SmallDrive());
  Disk sleeper_{parameters_, GetParam(), kDepth, 1};
  Disk watcher_{parameters_, GetParam(), kDepth, 1};
  kvmix::Random random_{7, 1};
  Time now_ = 0;
};

TEST_P(Sleeps, NoRequestIsDoneBeforeNext) {
  constexpr int kRequests = 5000;
  constexpr std::uint32_t kAtOnce = 4;
  std::vector<std::uint32_t> idle = {0, 1, 2, 3};
  int submitted = 0;
  int turns = 0;
  std::vector<Done> late;
  std::vector<Done> early;
  while (submitted < kRequests || idle.size() < kAtOnce) {
    while (submitted < kRequests && !idle.empty()) {
      Submit(idle.back());
      idle.pop_back();
      ++submitted;
    }
    const Time next = sleeper_.Next();
    ASSERT_NE(next, zonemodel::kNever);
    if (next > now_) watcher_.Advance(next - 1, &early);
    ASSERT_TRUE(early.empty()) << "done at " << early.front().due << ", before " << next;
    now_ = std::max(now_, next);
    sleeper_.Advance(now_, &late);
    watcher_.Advance(now_, &early);
    ASSERT_EQ(late.size(), early.size());
    for (std::size_t i = 0; i < late.size(); ++i) {
      ASSERT_EQ(late[i].tag, early[i].tag);
      ASSERT_EQ(late[i].due, early[i].due);
      idle.push_back(late[i].tag);
    }
    late.clear();
    early.clear();
    ++turns;
  }
  // While writes wait for the buffer, each program and each erase causes a turn.
  EXPECT_LT(turns, 5 * kRequests);
}

INSTANTIATE_TEST_SUITE_P(Disk, Sleeps, testing::Bool());

TEST_F(DiskTest, ALargeReadWakesOnce) {
  Do(Op::kWrite, 0, 256 * kKiB);
  disk_.Submit(now_, 0, {.op = Op::kRead, .offset = 0, .bytes = 256 * kKiB});
  std::vector<Done> done;
  int turns = 0;
  for (; done.empty(); ++turns) disk_.Advance(disk_.Next(), &done);
  EXPECT_LE(turns, 2);  // 16 pages on 4 dies
}

TEST(Pace, DilatesTheModelsTime) {
  const Pace pace(1000, 8);
  EXPECT_EQ(pace.Model(1000), 0U);
  EXPECT_EQ(pace.Model(1007), 0U);
  EXPECT_EQ(pace.Model(1008), 1U);
  for (const Time model : {0U, 1U, 12'000U}) EXPECT_EQ(pace.Model(pace.Clock(model)), model);
  EXPECT_EQ(pace.Clock(12'000) - pace.Clock(0), 96'000U);
}

TEST(Pace, TakesTheOverheadOffFixedLatencies) {
  zonemodel::Parameters parameters = zonemodel::ReadParameters(zonemodel::SmallDrive());
  TakeOff(&parameters, 7 * kUs);
  EXPECT_EQ(parameters.front.write, 3 * kUs);
  EXPECT_EQ(parameters.front.flush, 0U);
  // A read takes 5 us in the front end. The rest comes off the die.
  EXPECT_EQ(parameters.front.read, 0U);
  EXPECT_EQ(parameters.flash.read_4k, 48 * kUs);
  EXPECT_EQ(parameters.zones->open, 2 * kUs);
  Disk disk(parameters, true, kDepth, 1);
  disk.Submit(0, 0, {.op = Op::kWrite, .offset = 0, .bytes = 4 * kKiB});
  EXPECT_EQ(disk.Next(), 5 * kUs);  // 12 us otherwise
}

}  // namespace
}  // namespace zoneblk
