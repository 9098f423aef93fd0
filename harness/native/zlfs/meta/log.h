// Writer of the metadata log.
//
// Append only encodes the record. The caller holds the mutex of the described state, so records
// have the order of the changes. Commit writes all appended records as one frame and flushes.
//
// Two zones hold equal copies of the log. If only one zone can be written, there is one copy.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "zlfs/account/zone_io.h"
#include "zlfs/format/record.h"
#include "zlfs/format/sealed.h"
#include "zlfs/format/superblock.h"

namespace zlfs {

// The log rolls over at this size even if its zones have room. This bounds the mount time.
inline constexpr std::uint64_t kMaxLogBytes = 64 << 20;

class MetaLog {
 public:
  // Appends records that describe the complete state. Called with the state mutex held.
  using Describe = std::function<void(std::vector<Record>*)>;

  // `state` is the mutex of the state that `describe` describes. `zones` hold the copies of the
  // current generation; a new volume has none. `last_frame` is the last frame number in use, and
  // `last_checksum` the checksum of this frame.
  MetaLog(ZoneIo* io, std::mutex* state, Describe describe, Superblock superblock,
          std::vector<std::uint32_t> zones, std::uint64_t last_frame, std::uint64_t last_checksum,
          std::uint64_t capacity);

  // Writes the state to other metadata zones as the next generation. The first call starts the log.
  // If all kMetadataZones may be active during the call, two zones hold the state at each moment:
  // one of them can fail. Otherwise only one zone holds it for a while.
  // The caller must not hold the state mutex. Errors: "no-metadata-zone" if none can be written,
  // "metadata-full".
  IOStatus RollOver(bool all_active = false);

  // Returns the record's position. The caller holds the state mutex.
  std::uint64_t Append(const Record& record);
  // Position of the last record.
  std::uint64_t appended() const { return appended_.load(std::memory_order_relaxed); }

  // Makes the records up to `position` durable, and all earlier writes to the device. The caller
  // must not hold the state mutex. If a write fails, the log continues in other metadata zones.
  // Errors are permanent.
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
  // One write to a copy.
  struct Part {
    std::string blocks;
    std::size_t payload = 0;
  };
  // A zone that holds, or may hold, a copy that is no longer part of the log.
  struct Old {
    std::uint32_t zone = 0;
    std::uint64_t generation = 0;  // 0: the copy needs no mark: it is unfinished, or has one
    std::uint64_t previous = 0;    // checksum of its last part
  };

  IOStatus WriteRecords(std::uint64_t position, Mark* written);
  void Flushed(const Mark& mark);
  IOStatus RollOverLocked(bool all_active = false);
  // Makes the parts of the next generation. Error: "metadata-full".
  IOStatus Encode(const std::vector<Record>& records, std::vector<Part>* parts);
  Part EncodeFrame(FrameKind kind, const std::string& records);
  // All metadata zones, in the order in which the next generation tries them.
  std::vector<std::uint32_t> ZonesInTurn() const;
  // Writes the parts to the first zone that takes them, and moves this zone to `copies`. Zones that
  // failed before leave `zones`, and join `old` if they cannot be reset. `old` keeps its entry of a
  // zone only while the zone keeps its content.
  IOStatus WriteCopy(const std::vector<Part>& parts, std::vector<std::uint32_t>* zones,
                     std::vector<std::uint32_t>* copies, std::vector<Old>* old);
  // Writes the parts to the zone. `*landed`: the bytes of them that it holds, also after an error.
  IOStatus WriteParts(const std::vector<Part>& parts, std::uint32_t zone, std::uint64_t* landed);
  IOStatus WriteFrame(const std::string& records);
  // Resets the zone. If that fails, marks the copy as superseded, if it needs a mark: recovery must
  // not take it for the newest one when it cannot read the newest. Returns whether a mark was
  // written.
  bool Discard(const Old& old);
  // Whether a zone has room for `size` bytes at `offset`, and for a mark behind them.
  bool Fits(std::uint64_t offset, std::uint64_t size) const;

  ZoneIo* const io_;
  std::mutex* const state_;
  const Describe describe_;
  const std::uint64_t capacity_;

  std::string pending_;                      // encoded records; guarded by *state_
  std::atomic<std::uint64_t> appended_ = 0;  // changes only with *state_ held

  std::mutex write_;  // lock order: before *state_; guards the members up to written_
  Superblock superblock_;
  std::vector<std::uint32_t> zones_;     // of the copies
  std::optional<std::uint32_t> failed_;  // a copy whose write failed since the last roll-over
  std::uint64_t offset_ = 0;             // in each copy
  std::uint64_t frame_;                  // number of the last frame
  std::uint64_t previous_ = 0;           // checksum of the last frame or superblock
  IOStatus broken_;

  Mark written_;

  std::mutex flushed_;  // guards changes of the next two members; reads need no lock
  std::atomic<std::uint64_t> durable_ = 0;        // record position
  std::atomic<std::uint64_t> flushed_frame_ = 0;  // frame number
  std::atomic<std::uint64_t> generation_;         // changes only with write_ held
};

}  // namespace zlfs
