#include "zlfs/zoned/drive_clock.h"

#include <sys/prctl.h>

#include <algorithm>
#include <array>

#include "model/on_time.h"
#include "zlfs/zoned/short_slice.h"

namespace zlfs {
namespace {

using zonemodel::Command;
using zonemodel::EventKind;
using zonemodel::kNever;
using zonemodel::Operation;
using zonemodel::Status;
using zonemodel::Time;
using zonemodel::ZoneState;

constexpr std::uint32_t kDepth = 1024;  // commands under way
static_assert(kDepth >= DriveClock::kMostCommands);

// The kernel delays a sleeper by 50 us to save wake-ups, longer than a write takes.
void SleepExactly() {
  thread_local const int once = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  static_cast<void>(once);
}

ZoneState StateOf(ZoneCondition condition) {
  switch (condition) {
    case ZoneCondition::kImplicitlyOpen:
      return ZoneState::kImplicit;
    case ZoneCondition::kExplicitlyOpen:
      return ZoneState::kExplicit;
    case ZoneCondition::kClosed:
      return ZoneState::kClosed;
    case ZoneCondition::kFull:
      return ZoneState::kFull;
    default:
      return ZoneState::kEmpty;
  }
}

std::uint64_t Nanoseconds(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

}  // namespace

DriveClock::DriveClock(const zonemodel::Parameters& parameters, std::uint64_t dilation,
                       std::unique_ptr<DriveCounts> counts)
    : dilation_(dilation),
      counts_(std::move(counts)),
      drive_(parameters, 1, &events_),
      done_(kDepth, kNever) {
  for (std::uint32_t tag = 0; tag < kDepth; ++tag) free_.push_back(tag);
}

Time DriveClock::TimeOf(Clock::time_point point) const {
  return Nanoseconds(point - start_) / dilation_;
}

void DriveClock::Prepare(std::uint32_t zone, const ZoneInfo& info) {
  const Lock lock(mutex_);
  drive_.Prepare(zone, StateOf(info.condition), info.write_pointer, false, false);
}

Status DriveClock::Run(std::span<const Command> commands, Clock::time_point begin) {
  SleepExactly();
  ShortSlice slice;  // declared before the lock, so that it ends without it
  Lock lock(mutex_);
  std::array<std::uint32_t, kMostCommands> tags;
  for (std::size_t i = 0; i < commands.size(); ++i) tags[i] = TakeTag(&lock);
  if (under_way_++ == 0) busy_since_ = std::max(begin, idle_since_);
  // The drive works while the data is moved, but never in the past of other requests.
  const Time now = std::max(TimeOf(begin), advanced_);
  Advance(now);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    done_[tags[i]] = kNever;
    drive_.Submit(now, tags[i], commands[i]);
  }
  Advance(now);  // a drive without delays is done already
  Status status = Status::kOk;
  Time last = now;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    Wait(&lock, tags[i], &slice);
    const Status own = drive_.completion(tags[i]).status;
    if (own == Status::kOk) Count(commands[i]);
    if (status == Status::kOk) status = own;
    last = std::max(last, done_[tags[i]]);
    free_.push_back(tags[i]);
  }
  const Clock::time_point end = Clock::now();
  CountRequest(end - begin, last - now);
  if (--under_way_ == 0) {
    counts_->Add(DriveCount::kBusy, Nanoseconds(end - busy_since_));
    idle_since_ = end;
  }
  freed_.notify_all();
  return status;
}

void DriveClock::Count(const Command& command) {
  switch (command.operation) {
    case Operation::kRead:
      counts_->Add(DriveCount::kReads, 1);
      return counts_->Add(DriveCount::kReadBytes, command.bytes);
    case Operation::kWrite:
      counts_->Add(DriveCount::kWrites, 1);
      return counts_->Add(DriveCount::kWriteBytes, command.bytes);
    case Operation::kReport:
      return counts_->Add(DriveCount::kReports, 1);
    case Operation::kOpen:
      return counts_->Add(DriveCount::kOpens, 1);
    case Operation::kClose:
      return counts_->Add(DriveCount::kCloses, 1);
    case Operation::kFinish:
      return counts_->Add(DriveCount::kFinishes, 1);
    case Operation::kReset:
      return counts_->Add(DriveCount::kResets, 1);
    default:
      return;
  }
}

// Everything that a caller waits beyond the model's latency is late, also a wait for mutex_ and for
// the contents.
void DriveClock::CountRequest(Clock::duration took, Time latency) {
  const std::uint64_t due = latency * dilation_;
  const std::uint64_t late = Nanoseconds(took) - std::min(Nanoseconds(took), due);
  counts_->Add(DriveCount::kRequests, 1);
  counts_->Add(DriveCount::kLate, late);
  counts_->Add(DriveCount::kLatency, due);
  if (zonemodel::IsOnTime(late, due, dilation_)) counts_->Add(DriveCount::kOnTime, 1);
  const zonemodel::Media& media = drive_.media();
  counts_->Add(DriveCount::kHostBytes, media.host - counted_.host);
  counts_->Add(DriveCount::kPadBytes, media.pad - counted_.pad);
  counted_ = media;
}

std::uint32_t DriveClock::TakeTag(Lock* lock) {
  freed_.wait(*lock, [this] { return !free_.empty(); });
  const std::uint32_t tag = free_.back();
  free_.pop_back();
  return tag;
}

void DriveClock::Advance(Time now) {
  advanced_ = std::max(advanced_, now);
  while (!events_.empty() && events_.first().time <= now) {
    const zonemodel::Event event = events_.Take();
    if (event.kind() == EventKind::kDone) {
      done_[event.tag()] = event.time;
    } else {
      drive_.Handle(event);
    }
  }
}

// A sleeper wakes tens of microseconds late, longer than a write takes in the model. So the thread
// sleeps until shortly before the time, and then polls the clock.
void DriveClock::Wait(Lock* lock, std::uint32_t tag, ShortSlice* slice) {
  constexpr std::chrono::microseconds kWakeUp(150);
  if (done_[tag] != kNever) return;
  lock->unlock();
  slice->Begin();
  lock->lock();
  Advance(Now());
  while (done_[tag] == kNever) {
    const std::chrono::nanoseconds due(drive_.EarliestDone(tag) * dilation_);
    due_.wait_until(*lock, start_ + due - kWakeUp);
    lock->unlock();
    while (Clock::now() < start_ + due) {
    }
    lock->lock();
    Advance(Now());
  }
}

}  // namespace zlfs
