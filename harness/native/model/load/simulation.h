// Plays a job on a drive: the host's stack, clients in closed and open loops, and the result.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "model/drive.h"
#include "model/events.h"
#include "model/load/client.h"
#include "model/load/job.h"
#include "model/load/statistics.h"
#include "model/parameters.h"

namespace zonemodel {

class Simulation {
 public:
  Simulation(const Parameters& parameters, const Job& job);
  Json Run();

 private:
  static constexpr std::uint32_t kNoTag = ~std::uint32_t{0};

  // A place for one command under way. Its index is the command's tag.
  struct Slot {
    std::uint32_t client = 0;
    std::uint32_t number = 0;     // index in the client
    Time begin = 0;               // time of its submission or, with a rate, when it was due
    std::uint32_t next = kNoTag;  // next write of those that are merged with this one
    Command command{};
  };
  // Writes of one lane that a stack holds back while another is under way.
  struct Held {
    bool busy = false;
    std::deque<std::uint32_t> waiting;
  };
  struct Running {
    Client client;
    Statistics statistics;
    std::vector<Held> held;          // by lane, for stacks that merge
    std::uint64_t due = 0;           // commands with a due time so far
    Time thread = 0;                 // the client's thread is free from this time
    bool ran_out = false;            // it had no more commands before its end
    Time moment = kNever;            // when the client sent its last command
    std::uint32_t sent_at_once = 0;  // commands sent at `moment`
  };

  void Prepare();
  void RequireProgress(Running* running, Operation operation, Time now) const;
  void Issue(std::uint32_t tag, Time now);
  void Dispatch(std::uint32_t tag, Time now);
  void Release(Running* running, std::uint32_t lane, Time now);
  void Completed(std::uint32_t tag, Time now);
  void Record(std::uint32_t tag, Time now, const Completion& result);
  void Continue(std::uint32_t tag, Time now);
  Json Report(Time end) const;
  [[nodiscard]] Json ZonesJson() const;
  [[nodiscard]] Json MediaJson() const;

  const Parameters parameters_;
  const Job job_;
  EventQueue events_;
  Drive drive_;
  std::vector<Running> clients_;
  std::vector<Slot> slots_;
  std::uint64_t under_way_ = 0;  // slots whose clients have not ended
  std::uint64_t commands_ = 0;
  std::uint64_t opens_ = 0, resets_ = 0, finishes_ = 0;
};

}  // namespace zonemodel
