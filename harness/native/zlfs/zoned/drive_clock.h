// A modelled drive in real time: the thread that sends a command sleeps until the model has
// completed it. With a dilation of K, a second of the model takes K seconds.

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

  // Sets the state of a zone, in no time: contents can be older than this clock.
  void Prepare(std::uint32_t zone, const ZoneInfo& info);
  // Sends the commands at once and returns when all are done. Returns the first status that is not
  // ok. At most kMostCommands. The request began at `begin`: its data was moved since then.
  zonemodel::Status Run(std::span<const zonemodel::Command> commands,
                        std::chrono::steady_clock::time_point begin);
  DriveCounts* counts() const { return counts_.get(); }

  static constexpr std::size_t kMostCommands = 32;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  // Time of the model since the clock was made.
  zonemodel::Time TimeOf(Clock::time_point point) const;
  zonemodel::Time Now() const { return TimeOf(Clock::now()); }
  // The functions below require mutex_; TakeTag and Wait release it while they wait.
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
  std::vector<zonemodel::Time> done_;      // by tag: when it was done, or kNever
  std::vector<std::uint32_t> free_;        // tags
  zonemodel::Media counted_;               // the part of the media's bytes that counts_ contains
  zonemodel::Time advanced_ = 0;           // the time up to which the drive has worked
  std::uint32_t under_way_ = 0;            // requests
  Clock::time_point busy_since_;           // while there are some
  Clock::time_point idle_since_ = start_;  // while there are none
  std::condition_variable freed_;
  std::condition_variable due_;  // never notified: a command ends only at its time
};

}  // namespace zlfs
