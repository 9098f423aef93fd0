// The controller's front end: the serial stage that limits the commands per second, the fixed
// latencies, and the link that carries the data of reads to the host.

#pragma once

#include <algorithm>
#include <cstdint>

#include "model/parameters.h"

namespace zonemodel {

class Front {
 public:
  explicit Front(const FrontParameters& front);

  // Takes the next turn in the stage for an arriving command. Returns the time at which it enters
  // the stage. The command itself does not wait until the stage is free again.
  Time EnterRead(Time arrival) { return Occupy(arrival, front_.stage_read); }
  Time EnterWrite(Time arrival, Bytes bytes, bool append) {
    Time cost = append ? front_.stage_append : front_.stage_write;
    if (bytes < front_.partial_below) cost += front_.stage_partial;
    const bool is_long = ++writes_ % front_.stage_long_every == 0;
    cost = static_cast<Time>(static_cast<unsigned __int128>(cost) * (is_long ? long_ : short_) /
                             kWhole);
    return Occupy(arrival, cost);
  }
  // Lets no command enter the stage before `end`.
  void Block(Time end) { stage_ = std::max(stage_, end); }

  // Returns the latency of a write or an append, without waits.
  [[nodiscard]] Time WriteLatency(Bytes bytes, bool append) const {
    Time latency = (append ? front_.append : front_.write) + format_;
    if (bytes < front_.partial_below) latency += front_.partial;
    if (bytes > front_.inline_bytes) {
      latency += append ? front_.list_append : front_.list;
      latency += Duration(bytes - front_.inline_bytes, front_.write_rate);
    }
    return latency;
  }

  // Sends the data of a read to the host; the controller has it at `ready`. Returns the time at
  // which the host has it. The turn on the link is taken at `now`, so that a late transfer does not
  // delay others.
  Time Leave(Time now, Time ready, Bytes bytes) {
    const Time cost = OnLink(bytes);
    const Time begin = std::max(link_, now);
    link_ = begin + cost;
    return std::max(begin, ready) + cost;
  }

  // Returns the shortest time from the data's arrival in the controller to its arrival in the host.
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
  std::uint64_t long_;  // times in the stage as shares of the mean: of long writes, of others
  std::uint64_t short_;
  Time format_;  // time that the block format adds to each command
  Time stage_ = 0;
  Time link_ = 0;
  std::uint64_t writes_ = 0;
};

}  // namespace zonemodel
