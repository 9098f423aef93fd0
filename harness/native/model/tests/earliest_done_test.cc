// Tests of the lower bounds for the ends of commands. Callers sleep until then.

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <random>

#include "model/drive.h"
#include "model/tests/small_drive.h"

namespace zonemodel {
namespace {

constexpr Bytes kBlock = 4096;
constexpr Bytes kCapacity = 1 << 20;
constexpr std::uint32_t kWritten = 3;    // zones 0 to 2
constexpr std::uint32_t kFirstFull = 8;  // this zone and all after it

class EarliestDoneTest : public testing::Test {
 protected:
  void Start(std::uint64_t seed) {
    Json model = SmallDrive();
    model["zones"]["erase_at"] = "reset";
    drive_ = std::make_unique<Drive>(ReadParameters(model), seed, &events_);
    for (std::uint32_t zone = kFirstFull; zone < 16; ++zone) {
      ASSERT_EQ(drive_->Prepare(zone, ZoneState::kFull, kCapacity, false, true), Status::kOk);
    }
  }

  void Submit(Operation operation, std::uint32_t zone, Bytes offset, Bytes bytes) {
    drive_->Submit(now_, tags_++, {operation, false, zone, offset, bytes});
  }

  // Takes the first event, and records the command that it ends.
  void Step() {
    const Event event = events_.Take();
    now_ = event.time;
    if (event.kind() != EventKind::kDone) return drive_->Handle(event);
    EXPECT_EQ(drive_->completion(event.tag()).status, Status::kOk) << event.tag();
    done_[event.tag()] = event.time;
  }

  EventQueue events_;
  std::unique_ptr<Drive> drive_;
  Time now_ = 0;
  std::uint32_t tags_ = 0;
  std::map<std::uint32_t, Time> done_;
};

TEST_F(EarliestDoneTest, OtherCommandsDoNotLowerTheBound) {
  Start(1);
  Submit(Operation::kRead, kFirstFull, 0, kBlock);
  Submit(Operation::kWrite, 0, 0, kBlock);
  const Time all = drive_->EarliestDone();
  const Time read = drive_->EarliestDone(0);
  const Time write = drive_->EarliestDone(1);
  while (!events_.empty()) Step();
  EXPECT_EQ(write, done_[1]);
  EXPECT_EQ(read, done_[0]);
  EXPECT_EQ(all, done_[1]);
  EXPECT_LT(write, read);
}

TEST_F(EarliestDoneTest, NoCommandIsDoneBeforeItsBound) {
  std::size_t waited = 0;  // commands that waited longer than their first bound
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    events_ = {};
    done_.clear();
    tags_ = 0;
    now_ = 0;
    Start(seed);
    std::mt19937_64 random(seed);
    std::array<Bytes, kWritten> written = {};
    for (int i = 0; i < 60; ++i) {  // more than the buffer holds
      const auto zone = static_cast<std::uint32_t>(random() % kWritten);
      if (random() % 2 == 0 && written[zone] < kCapacity) {
        Submit(Operation::kWrite, zone, written[zone], 128 << 10);
        written[zone] += 128 << 10;
      } else {
        Submit(Operation::kRead, kFirstFull + zone, (random() % 128) * kBlock, 128 << 10);
      }
    }
    Submit(Operation::kReset, 15, 0, 0);
    // No command arrives after this.
    std::map<std::uint32_t, Time> first;
    std::map<std::uint32_t, Time> latest;
    while (!events_.empty()) {
      Time earliest = kNever;
      for (std::uint32_t tag = 0; tag < tags_; ++tag) {
        if (done_.contains(tag)) continue;
        const Time bound = drive_->EarliestDone(tag);
        first.try_emplace(tag, bound);
        latest[tag] = std::max(latest[tag], bound);
        earliest = std::min(earliest, bound);
      }
      EXPECT_LE(drive_->EarliestDone(), earliest);
      Step();
    }
    ASSERT_EQ(done_.size(), tags_);
    for (const auto& [tag, bound] : latest) EXPECT_LE(bound, done_[tag]) << tag;
    for (const auto& [tag, bound] : first) waited += bound < done_[tag];
  }
  EXPECT_GT(waited, 20U);
}

}  // namespace
}  // namespace zonemodel
