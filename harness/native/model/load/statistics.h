// Counts, latencies and errors of a client's commands, by kind.

#pragma once

#include <array>
#include <map>

#include "model/command.h"
#include "model/fields.h"
#include "model/load/histogram.h"

namespace zonemodel {

class Statistics {
 public:
  // Records a command that completed at `now`.
  void Record(const Command& command, Status status, bool opened, Time latency, Time now);
  // Returns the result by kind. Rates are over `window` nanoseconds.
  [[nodiscard]] Json Report(Time window) const;
  [[nodiscard]] Time last() const { return last_; }

 private:
  struct Kind {
    Histogram latencies;
    Bytes bytes = 0;
    Time first = kNever;
    Time last = 0;
    std::map<Status, std::uint64_t> errors;
  };
  static Json KindJson(const Kind& kind, Time window);

  std::array<Kind, kOperationNames.size()> kinds_;
  Kind write_first_;
  Kind append_first_;
  Time last_ = 0;
};

}  // namespace zonemodel
