#include "zlfs/zoned/drive_clock.h"

#include <sys/prctl.h>

#include <algorithm>

namespace zlfs {
namespace {

using zonemodel::EventKind;
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

}  // namespace

DriveClock::DriveClock(const zonemodel::Parameters& parameters, std::uint64_t dilation)
    : dilation_(dilation), drive_(parameters, 1, &events_), done_(kDepth) {
  for (std::uint32_t tag = 0; tag < kDepth; ++tag) free_.push_back(tag);
}

Time DriveClock::Now() const {
  const std::chrono::nanoseconds passed = Clock::now() - start_;
  return static_cast<Time>(passed.count()) / dilation_;
}

void DriveClock::Prepare(std::uint32_t zone, const ZoneInfo& info) {
  const Lock lock(mutex_);
  drive_.Prepare(zone, StateOf(info.condition), info.write_pointer, false, false);
}

Status DriveClock::Run(std::span<const zonemodel::Command> commands) {
  SleepExactly();
  Lock lock(mutex_);
  std::vector<std::uint32_t> tags;
  for (std::size_t i = 0; i < commands.size(); ++i) tags.push_back(TakeTag(&lock));
  const Time now = Now();
  Advance(now);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    done_[tags[i]] = false;
    drive_.Submit(now, tags[i], commands[i]);
  }
  Status status = Status::kOk;
  for (const std::uint32_t tag : tags) {
    Wait(&lock, tag);
    if (status == Status::kOk) status = drive_.completion(tag).status;
    free_.push_back(tag);
  }
  freed_.notify_all();
  return status;
}

std::uint32_t DriveClock::TakeTag(Lock* lock) {
  freed_.wait(*lock, [this] { return !free_.empty(); });
  const std::uint32_t tag = free_.back();
  free_.pop_back();
  return tag;
}

void DriveClock::Advance(Time now) {
  while (!events_.empty() && events_.first().time <= now) {
    const zonemodel::Event event = events_.Take();
    if (event.kind() == EventKind::kDone) {
      done_[event.tag()] = true;
    } else {
      drive_.Handle(event);
    }
  }
}

void DriveClock::Wait(Lock* lock, std::uint32_t tag) {
  Advance(Now());
  while (!done_[tag]) {
    const std::chrono::nanoseconds due(drive_.EarliestDone() * dilation_);
    due_.wait_until(*lock, start_ + due);
    Advance(Now());
  }
}

}  // namespace zlfs
