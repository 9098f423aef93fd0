// The writing end of the metadata log.
//
// Appending a record is cheap and happens under the mutex of the state that the record describes,
// so that records are in the order of the changes. Commit writes all appended records as one frame
// and flushes.

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

// Bytes after which the log rolls over although its zone has room: bounds the time of a mount.
inline constexpr std::uint64_t kMaxLogBytes = 64 << 20;

class MetaLog {
 public:
  // Describes the whole state in records. Called with the state's mutex held.
  using Describe = std::function<void(std::vector<Record>*)>;

  // `state` is the mutex of what `describe` describes. `zone` is the metadata zone that is valid
  // now; `last_frame` the last number that was used.
  MetaLog(ZoneIo* io, std::mutex* state, Describe describe, Superblock superblock,
          std::uint32_t zone, std::uint64_t last_frame, std::uint64_t capacity);

  // Writes the state into the other metadata zone as the next generation. The first call begins
  // the log. Call without the state's mutex.
  IOStatus RollOver();

  // Returns the record's position. The caller holds the state's mutex.
  std::uint64_t Append(const Record& record);
  // Position of the last record.
  std::uint64_t appended() const { return appended_.load(std::memory_order_relaxed); }

  // Makes records up to `position` durable, and everything written to the device before. Call
  // without the state's mutex. An error that leaves the log undefined is returned ever after.
  IOStatus Commit(std::uint64_t position);

  // Everything up to here survives a loss of power.
  std::uint64_t durable() const { return durable_.load(std::memory_order_acquire); }
  std::uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }

 private:
  // What was written: the last record, and the frame that it is in.
  struct Mark {
    std::uint64_t position = 0;
    std::uint64_t frame = 0;
  };

  IOStatus WriteRecords(std::uint64_t position, Mark* written);
  void Flushed(const Mark& mark);
  IOStatus RollOverLocked();
  IOStatus WriteFrame(FrameKind kind, const std::string& records);
  IOStatus WriteBlocks(const std::string& blocks, std::size_t payload);

  ZoneIo* const io_;
  std::mutex* const state_;
  const Describe describe_;
  const std::uint64_t capacity_;

  std::string pending_;                      // records; guarded by *state_
  std::atomic<std::uint64_t> appended_ = 0;  // changed with *state_ held

  std::mutex write_;  // taken before *state_; guards what follows
  Superblock superblock_;
  std::uint32_t zone_;
  std::uint64_t offset_ = 0;
  std::uint64_t frame_;         // number of the last frame
  std::uint64_t previous_ = 0;  // checksum of what was written last
  IOStatus broken_;

  Mark written_;

  std::mutex flushed_;                            // guards changes of the next two
  std::atomic<std::uint64_t> durable_ = 0;        // position
  std::atomic<std::uint64_t> flushed_frame_ = 0;  // number
  std::atomic<std::uint64_t> generation_;
};

}  // namespace zlfs
