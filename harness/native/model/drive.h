// A modelled drive: front end, write buffer, dies, zones and translation layer. It has no clock:
// each command comes with its arrival time, and the caller takes the drive's events from a queue in
// order.

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
  Bytes offset = 0;     // of an append: where its data was written
};

// Bytes of the medium by origin.
struct Media {
  Bytes host = 0;  // accepted from the host
  Bytes programmed = 0;
  Bytes pad = 0;             // without data: finishes, early programs, rests of pages
  Bytes moved = 0;           // copied by garbage collection
  std::uint64_t erases = 0;  // erased blocks; each lies on one die
};

class Drive {
 public:
  Drive(const Parameters& parameters, std::uint64_t seed, EventQueue* events);

  // Submits a command. `tag` names it until its event kDone; no other command under way may have
  // this tag. Arrivals may lie a little in the future. Commands are processed in the order of the
  // calls.
  void Submit(Time arrival, std::uint32_t tag, const Command& command);
  // Handles an event of the queue, except kDone and kTimer, which are for the caller.
  void Handle(const Event& event);
  // Returns a lower bound: no command under way is done earlier, unless another command arrives.
  // Returns kNever without a command. A caller can sleep until then and take all earlier events at
  // once.
  [[nodiscard]] Time EarliestDone() const;
  // The same bound for one command, which must be under way.
  [[nodiscard]] Time EarliestDone(std::uint32_t tag) const;
  [[nodiscard]] const Completion& completion(std::uint32_t tag) const {
    return under_way_[tag].result;
  }

  // Sets the state of a zone. This takes no time; it prepares a job.
  Status Prepare(std::uint32_t zone, ZoneState state, Bytes written, bool finished, bool stale);
  // Repeats `times` times: writes as many pages as the conventional namespace has, in order or at
  // random. This takes no time.
  void PrepareConventional(bool random, std::uint32_t times, kvmix::Random* draw);
  [[nodiscard]] const Zones* zones() const { return zones_ ? &*zones_ : nullptr; }
  [[nodiscard]] const Ftl* ftl() const { return ftl_ ? &*ftl_ : nullptr; }
  [[nodiscard]] const Media& media() const { return media_; }

 private:
  // Returns a lower bound: this event ends no command earlier.
  [[nodiscard]] Time EarliestDone(const Event& event) const;

  struct UnderWay {
    Command command;
    Completion result;
    std::uint32_t parts = 0;  // parts that are not done
    Bytes part = 0;           // bytes of each part of a read
    Time done = 0;            // latest end of its finished parts
    Time last_page = 0;       // when the last die has the data of a read
    std::uint32_t life = 0;   // of the zone of a write
  };

  struct Section {  // a reset's section of firmware
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
  Bytes leaving_ = 0;  // bytes that leave the buffer when tasks under way end
  Dies dies_;
  std::optional<Zones> zones_;
  std::optional<Ftl> ftl_;
  Media media_;
  std::vector<std::uint8_t> in_program_;  // number of programs under way, by unit of ftl_
  std::vector<UnderWay> under_way_;       // by tag
  std::uint64_t waited_tasks_ = 0;        // fills and erases that a command waits for
  std::deque<Section> core_queue_;        // resets; the core runs the first one
  Time core_end_ = 0;                     // when the first reset ends
};

}  // namespace zonemodel
