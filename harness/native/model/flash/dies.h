// Dies on channels: reads, one-shot programs that reads may pause, and erases.
//
// A die works on one task (program or erase) or one read at a time. Tasks wait in the order of
// their arrival. Reads go first: they wait for earlier reads, and pause the current task a bounded
// number of times. The end of a read is known at its arrival, so it needs no event. A pause only
// moves the end of the task.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "kvmix/source/random.h"
#include "model/events.h"
#include "model/parameters.h"

namespace zonemodel {

struct Task {
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  enum class Kind : std::uint8_t { kProgram, kFill, kErase };
  Kind kind;
  std::uint32_t count;          // repetitions; other tasks of the die may run between them
  std::uint32_t owner;          // the zone, or the unit of the translation layer
  Bytes buffered;               // bytes that leave the write buffer at the end
  Time reads;                   // time to read what garbage collection moves
  std::uint32_t tag = kNobody;  // the command that waits for the end
  std::uint32_t life = 0;       // of the zone
  bool conventional = false;
};

class Dies {
 public:
  Dies(const FlashParameters& flash, std::uint64_t seed, EventQueue* events);

  // Takes a read of `bytes` within a page. Returns the time at which the die has the data, and adds
  // an event with `tag` for it.
  Time Read(std::uint32_t die, Time arrival, Bytes bytes, std::uint32_t tag);
  // Sends data that `die` has read to the controller. Returns the time of its arrival.
  Time Transfer(std::uint32_t die, Time now, Bytes bytes) {
    return Send(die, now, TransferTime(bytes));
  }
  [[nodiscard]] Time TransferTime(Bytes bytes) const {
    return Duration(bytes, flash_.channel_read_rate);
  }

  void Add(std::uint32_t die, Time now, const Task& task);
  // Handles an event of a die. Returns whether a task ended, and which. Each repetition of a task
  // ends as a task of its own.
  bool Advance(std::uint32_t die, Time now, Task* ended);

 private:
  struct Die {
    Time reads_end = 0;    // when the die has finished all reads that arrived
    Time pause_begin = 0;  // begin of the current task's last pause
    Time task_end = 0;     // of the current task, or 0
    std::uint32_t pauses = 0;
    bool works = false;      // there is a current task
    bool waits = false;      // an event will start the next task
    std::deque<Task> tasks;  // the first is the current one, if any
  };

  Time Send(std::uint32_t die, Time now, Time cost);
  void Begin(std::uint32_t die, Time now);
  Time Cost(std::uint32_t die, Time now, const Task& task);
  Time Uniform(Time low, Time high) { return low + random_.Below(high - low + 1); }

  const FlashParameters flash_;
  kvmix::Random random_;
  EventQueue* events_;
  std::vector<Die> dies_;
  std::vector<Time> channels_;  // free from this time
};

}  // namespace zonemodel
