// The controller's front end: the serial stage that caps commands a second, fixed latencies, the
// link that carries data of reads to the host.

#pragma once

#include <algorithm>
#include <cstdint>

#include "model/parameters.h"

namespace zonemodel {

class Front {
 public:
  explicit Front(const FrontParameters& front);

  // A command arrives and takes its turn in the stage. Returns when it enters the stage. The stage
  // stays occupied while the command goes on.
  Time EnterRead(Time arrival) { return Occupy(arrival, front_.stage_read); }
  Time EnterWrite(Time arrival, Bytes bytes, bool append) {
    Time cost = append ? front_.stage_append : front_.stage_write;
    if (bytes < front_.partial_below) cost += front_.stage_partial;
    const bool is_long = ++writes_ % front_.stage_long_every == 0;
    cost = static_cast<Time>(static_cast<unsigned __int128>(cost) * (is_long ? long_ : short_) /
                             kWhole);
    return Occupy(arrival, cost);
  }
  // Nothing enters the stage before `end`.
  void Block(Time end) { stage_ = std::max(stage_, end); }

  // The latency of a write or an append, without any wait.
  [[nodiscard]] Time WriteLatency(Bytes bytes, bool append) const {
    Time latency = (append ? front_.append : front_.write) + format_;
    if (bytes < front_.partial_below) latency += front_.partial;
    if (bytes > front_.inline_bytes) {
      latency += append ? front_.list_append : front_.list;
      latency += Duration(bytes - front_.inline_bytes, front_.write_rate);
    }
    return latency;
  }

  // Data of a read leaves the controller from `ready` on. Returns when the host has it. The turn on
  // the link is taken now, so that one late transfer does not keep others waiting.
  Time Leave(Time now, Time ready, Bytes bytes) {
    const Time cost = OnLink(bytes);
    const Time begin = std::max(link_, now);
    link_ = begin + cost;
    return std::max(begin, ready) + cost;
  }

  // The least time from the end of a read of flash until the host has its data.
  [[nodiscard]] Time ReadLatency(Bytes bytes) const {
    return front_.read + format_ + OnLink(bytes);
  }

  [[nodiscard]] Time format() const { return format_; }
  [[nodiscard]] const FrontParameters& parameters() const { return front_; }

 private:
  [[nodiscard]] Time OnLink(Bytes bytes) const {
    return front_.link_command + Duration(bytes, front_.link_rate);
  }
  Time Occupy(Time arrival, Time cost) {
    const Time begin = std::max(stage_, arrival);
    stage_ = begin + cost;
    return begin;
  }

  const FrontParameters front_;
  std::uint64_t long_;  // shares of the mean time in the stage
  std::uint64_t short_;
  Time format_;  // added to each command for its block format
  Time stage_ = 0;
  Time link_ = 0;
  std::uint64_t writes_ = 0;
};

}  // namespace zonemodel
