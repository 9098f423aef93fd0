#include "model/flash/dies.h"

#include <algorithm>

namespace zonemodel {

namespace {
constexpr std::uint64_t kStream = 1;  // of random numbers
}

Dies::Dies(const FlashParameters& flash, std::uint64_t seed, EventQueue* events)
    : flash_(flash),
      random_(seed, kStream),
      events_(events),
      dies_(flash.dies()),
      channels_(flash.channels, 0) {}

Time Dies::Read(std::uint32_t number, Time arrival, Bytes bytes, std::uint32_t tag) {
  Die& die = dies_[number];
  Time cost = flash_.read_4k;
  if (bytes > 4096) {
    cost += (flash_.read_page - flash_.read_4k) * (bytes - 4096) / (flash_.page - 4096);
  }
  // Pages of three kinds take different times: fast, medium, slow.
  cost = cost + random_.Below(3) * flash_.read_spread - flash_.read_spread;

  // The die is busy until its data has left. A wait for the channel is not counted.
  const Time hold = TransferTime(bytes);

  Time begin = std::max(arrival, die.reads_end);
  if (arrival < die.task_end) {
    const bool in_pause = begin < die.task_end && die.reads_end > arrival && die.pauses > 0 &&
                          die.reads_end > die.pause_begin;
    const bool joins =
        in_pause && (flash_.read_burst == 0 || arrival < die.pause_begin + flash_.read_burst);
    if (joins) {
      die.task_end += cost + hold;
    } else if (begin < die.task_end && die.pauses < flash_.max_suspends) {
      const Time paused = begin + Uniform(flash_.suspend_min, flash_.suspend_max);
      if (paused >= die.task_end) {
        begin = die.task_end;  // the task ends before it can be paused
      } else {
        begin = paused;
        ++die.pauses;
        die.pause_begin = paused;
        die.task_end += cost + hold + flash_.resume;
      }
    } else {
      begin = std::max(begin, die.task_end);
    }
  }
  die.reads_end = begin + cost + hold;
  events_->Add(begin + cost, EventKind::kPageRead, number, tag);
  return begin + cost;
}

// Takes the next turn on the die's channel. Returns its end.
Time Dies::Send(std::uint32_t die, Time now, Time cost) {
  Time& free = channels_[die % flash_.channels];
  free = std::max(free, now) + cost;
  return free;
}

void Dies::Add(std::uint32_t number, Time now, const Task& task) {
  Die& die = dies_[number];
  die.tasks.push_back(task);
  if (!die.works && !die.waits) Begin(number, now);
}

// Begins the first task, or waits for the reads that arrived before.
void Dies::Begin(std::uint32_t number, Time now) {
  Die& die = dies_[number];
  if (die.reads_end > now) {
    die.waits = true;
    events_->Add(die.reads_end, EventKind::kDie, number, 0);
    return;
  }
  die.works = true;
  die.pauses = 0;
  die.task_end = Cost(number, now, die.tasks.front());
  events_->Add(die.task_end, EventKind::kDie, number, 0);
}

// Returns the end of a task that begins now.
Time Dies::Cost(std::uint32_t number, Time now, const Task& task) {
  if (task.kind == Task::Kind::kErase) return now + flash_.erase;
  Time begin = now;
  if (task.kind != Task::Kind::kFill) {
    begin = Send(number, now, Duration(flash_.program_unit, flash_.channel_rate));
  }
  const Time spread = flash_.program_spread;
  return begin + task.reads + flash_.program - spread + Uniform(0, 2 * spread);
}

bool Dies::Advance(std::uint32_t number, Time now, Task* ended) {
  Die& die = dies_[number];
  if (die.waits) {
    die.waits = false;
    Begin(number, now);
    return false;
  }
  if (die.task_end > now) {  // it was paused meanwhile
    events_->Add(die.task_end, EventKind::kDie, number, 0);
    return false;
  }
  *ended = die.tasks.front();
  die.tasks.pop_front();
  die.works = false;
  die.task_end = 0;
  if (ended->count > 1) {
    Task rest = *ended;
    --rest.count;
    die.tasks.push_back(rest);
  }
  if (!die.tasks.empty()) Begin(number, now);
  return true;
}

}  // namespace zonemodel
