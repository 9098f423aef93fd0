// Writer of the metadata log.
//
// Append is cheap. The caller holds the mutex of the described state, so that records are in the
// order of the changes. Commit writes all appended records as one frame and flushes.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "zlfs/account/zone_io.h"
#include "zlfs/format/record.h"
#include "zlfs/format/sealed.h"
#include "zlfs/format/superblock.h"

namespace zlfs {

// The log rolls over at this size even if its zone has room. This bounds the mount time.
inline constexpr std::uint64_t kMaxLogBytes = 64 << 20;

class MetaLog {
 public:
  // Appends records that describe the complete state. Called with the state mutex held.
  using Describe = std::function<void(std::vector<Record>*)>;

  // `state` is the mutex of the state that `describe` describes. `zone` is the current metadata
  // zone, `last_frame` the last frame number in use.
  MetaLog(ZoneIo* io, std::mutex* state, Describe describe, Superblock superblock,
          std::uint32_t zone, std::uint64_t last_frame, std::uint64_t capacity);

  // Writes the state to another metadata zone as the next generation. The first call starts the
  // log. The caller must not hold the state mutex. "no-metadata-zone": none can be written.
  IOStatus RollOver();

  // Returns the record's position. The caller holds the state mutex.
  std::uint64_t Append(const Record& record);
  // Position of the last record.
  std::uint64_t appended() const { return appended_.load(std::memory_order_relaxed); }

  // Makes the records up to `position` durable, and all earlier writes to the device. The caller
  // must not hold the state mutex. If a write fails, the log goes on in another metadata zone. An
  // error that leaves the log undefined is permanent.
  IOStatus Commit(std::uint64_t position);

  // Records up to this position survive a power loss.
  std::uint64_t durable() const { return durable_.load(std::memory_order_acquire); }
  std::uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }

 private:
  // The last written record and its frame.
  struct Mark {
    std::uint64_t position = 0;
    std::uint64_t frame = 0;
  };

  IOStatus WriteRecords(std::uint64_t position, Mark* written);
  void Flushed(const Mark& mark);
  // A zone that holds, or may hold, an earlier whole generation.
  struct Old {
    std::uint32_t zone = 0;
    std::uint64_t generation = 0;
    std::uint64_t previous = 0;  // checksum of its last frame
  };
  IOStatus RollOverLocked();
  // Resets the zone. If that fails, marks the generation: recovery must not take it for the newest
  // one when it cannot read the newest. Returns whether the zone was reset.
  bool Discard(const Old& old);
  // Whether the zone has room for `size` bytes and, behind them, for the mark of its generation.
  bool Fits(std::uint64_t size) const;
  IOStatus WriteGeneration(std::uint32_t zone, const std::vector<Record>& records);
  IOStatus WriteFrame(FrameKind kind, const std::string& records);
  IOStatus WriteBlocks(const std::string& blocks, std::size_t payload);

  ZoneIo* const io_;
  std::mutex* const state_;
  const Describe describe_;
  const std::uint64_t capacity_;

  std::string pending_;                      // encoded records; guarded by *state_
  std::atomic<std::uint64_t> appended_ = 0;  // changes only with *state_ held

  std::mutex write_;  // lock order: before *state_; guards the members up to written_
  Superblock superblock_;
  std::uint32_t zone_;
  std::uint64_t offset_ = 0;
  std::uint64_t frame_;         // number of the last frame
  std::uint64_t previous_ = 0;  // checksum of the last frame or superblock
  IOStatus broken_;

  Mark written_;

  std::mutex flushed_;                            // guards changes of the next two members
  std::atomic<std::uint64_t> durable_ = 0;        // record position
  std::atomic<std::uint64_t> flushed_frame_ = 0;  // frame number
  std::atomic<std::uint64_t> generation_;
};

}  // namespace zlfs
