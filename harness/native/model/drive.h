// A drive: front end, buffer, dies, zones, translation layer. It has no clock: commands come with
// the time of their arrival, and its events lie in a queue that the caller empties in order.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "kvmix/source/random.h"
#include "model/command.h"
#include "model/events.h"
#include "model/flash/dies.h"
#include "model/front/buffer.h"
#include "model/front/front.h"
#include "model/ftl/ftl.h"
#include "model/parameters.h"
#include "model/zones/zones.h"

namespace zonemodel {

struct Completion {
  Status status = Status::kOk;
  bool opened = false;  // the command opened an empty zone
  Bytes offset = 0;     // append: where the data is
};

// Bytes that programs wrote, by origin.
struct Media {
  Bytes host = 0;  // accepted from the host
  Bytes programmed = 0;
  Bytes pad = 0;             // by finishes
  Bytes moved = 0;           // by garbage collection
  std::uint64_t erases = 0;  // of blocks of one die
};

class Drive {
 public:
  Drive(const Parameters& parameters, std::uint64_t seed, EventQueue* events);

  // A command arrives. `tag` is free until its event kDone. Arrivals may lie a little in the
  // future, and are taken in the order of the calls.
  void Submit(Time arrival, std::uint32_t tag, const Command& command);
  // Takes an event of the queue that is not of the caller (kDone, kTimer).
  void Handle(const Event& event);
  // A time before which no command under way can be done, unless another one arrives. kNever
  // without a command. A caller that sleeps until then can take all events between at once.
  [[nodiscard]] Time EarliestDone() const;
  // The same for the command of this tag, which is under way.
  [[nodiscard]] Time EarliestDone(std::uint32_t tag) const;
  [[nodiscard]] const Completion& completion(std::uint32_t tag) const {
    return under_way_[tag].result;
  }

  // Gives a zone a state without time, as before a job.
  Status Prepare(std::uint32_t zone, ZoneState state, Bytes written, bool finished, bool stale);
  // Writes each page of the conventional namespace once in order, or as many pages at random, this
  // often, without time.
  void PrepareConventional(bool random, std::uint32_t times, kvmix::Random* draw);
  [[nodiscard]] const Zones* zones() const { return zones_ ? &*zones_ : nullptr; }
  [[nodiscard]] const Ftl* ftl() const { return ftl_ ? &*ftl_ : nullptr; }
  [[nodiscard]] const Media& media() const { return media_; }

 private:
  // A time before which no command can be done through this event.
  [[nodiscard]] Time EarliestDone(const Event& event) const;

  struct UnderWay {
    Command command;
    Completion result;
    std::uint32_t parts = 0;  // of the command that are not done
    Bytes part = 0;           // a read's bytes in each part
    Time done = 0;            // so far
    Time last_page = 0;       // when the last die has a read's data
    std::uint32_t life = 0;   // of a write's zone
  };

  struct Section {  // of firmware: a reset
    std::uint32_t tag;
    Time cost;
    bool exclusive;  // no command interrupts it
  };

  void Done(Time time, std::uint32_t tag) { events_->Add(time, EventKind::kDone, 0, tag); }
  void Part(Time time, std::uint32_t tag);
  void ReadPage(std::uint32_t die, Time entered, Bytes bytes, std::uint32_t tag);
  void Fail(Time arrival, std::uint32_t tag, Status status);

  void Read(Time arrival, std::uint32_t tag);
  void ReadZone(Time entered, std::uint32_t tag);
  void ReadConventional(Time entered, std::uint32_t tag);
  void Write(Time arrival, std::uint32_t tag);
  void Accept(Time now, const UnderWay& way);
  void AcceptZone(Time now, std::uint32_t zone, Bytes bytes);
  void ProgramUnit(Time now, std::uint32_t zone, Bytes bytes);
  void AcceptConventional(Time now, Bytes offset, Bytes bytes);
  void Open(Time arrival, std::uint32_t tag);
  void Close(Time arrival, std::uint32_t tag);
  void Finish(Time arrival, std::uint32_t tag);
  void Reset(Time arrival, std::uint32_t tag);
  void BeginReset(Time now);
  void EndReset(Time now, std::uint32_t tag);
  void EraseZone(Time now, std::uint32_t zone, std::uint32_t tag);
  void Ended(Time now, const Task& task);
  void AddTask(std::uint32_t die, Time now, const Task& task);
  void MakeRoom(Time now);
  void Admit(Time now);
  void Interrupt(Time cost);

  const Parameters parameters_;
  EventQueue* events_;
  kvmix::Random random_;
  Front front_;
  Buffer buffer_;
  Bytes leaving_ = 0;  // the buffer, with the programs under way
  Dies dies_;
  std::optional<Zones> zones_;
  std::optional<Ftl> ftl_;
  Media media_;
  std::vector<std::uint8_t> in_program_;  // programs under way, by unit of ftl_
  std::vector<UnderWay> under_way_;       // by tag
  std::uint64_t waited_tasks_ = 0;        // fills and erases that a command waits for
  std::deque<Section> core_queue_;        // the core that runs resets works on the first
  Time core_end_ = 0;                     // of that one
};

}  // namespace zonemodel
