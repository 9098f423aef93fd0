// A modelled drive in real time: whoever sends a command sleeps until the model has done it. With a
// dilation of K, a second of the model takes K seconds.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "model/drive.h"
#include "zlfs/zoned/device.h"
#include "zlfs/zoned/drive_counts.h"
#include "zlfs/zoned/short_slice.h"

namespace zlfs {

// Thread safety: all methods are thread-safe.
class DriveClock {
 public:
  DriveClock(const zonemodel::Parameters& parameters, std::uint64_t dilation,
             std::unique_ptr<DriveCounts> counts = std::make_unique<DriveCounts>());

  // Gives a zone a state without time, for contents that are older than this clock.
  void Prepare(std::uint32_t zone, const ZoneInfo& info);
  // Sends the commands at once and returns when all are done: the first status that is not ok.
  // Their number is at most kMostCommands.
  zonemodel::Status Run(std::span<const zonemodel::Command> commands);
  DriveCounts* counts() const { return counts_.get(); }

  static constexpr std::size_t kMostCommands = 32;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  // Time of the model since the clock was made.
  zonemodel::Time TimeOf(Clock::time_point point) const;
  zonemodel::Time Now() const { return TimeOf(Clock::now()); }
  std::uint32_t TakeTag(Lock* lock);
  void Advance(zonemodel::Time now);
  void Wait(Lock* lock, std::uint32_t tag, ShortSlice* slice);
  void Count(const zonemodel::Command& command);
  void CountRequest(Clock::duration took, zonemodel::Time latency);

  const std::uint64_t dilation_;
  const std::unique_ptr<DriveCounts> counts_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;  // guards the members below
  zonemodel::EventQueue events_;
  zonemodel::Drive drive_;
  std::vector<zonemodel::Time> done_;  // by tag: when it was done, or kNever
  std::vector<std::uint32_t> free_;    // tags
  zonemodel::Media counted_;           // by counts_
  std::uint32_t under_way_ = 0;        // requests
  Clock::time_point busy_since_;       // while there are some
  std::condition_variable freed_;
  std::condition_variable due_;  // is never notified: a command only ends at its time
};

}  // namespace zlfs
