// The one door to the device: each command that goes through it is counted, and concurrent flushes
// share one command.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <string_view>

#include "zlfs/alloc/allocator.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

// Counts of everything zlfs asked the device to do, by cause: what the ledger reports.
inline constexpr std::string_view kCauseNames[] = {"wal",    "flush", "compaction", "other",
                                                   "import", "gc",    "metadata"};

enum class FinishCause : std::uint8_t { kThreshold, kActiveLimit, kMetadata, kImport };
inline constexpr std::string_view kFinishNames[] = {"threshold", "active_limit", "metadata",
                                                    "import"};

struct Totals {
  struct Bytes {
    std::uint64_t payload = 0;
    std::uint64_t pad = 0;
  };
  struct Finishes {
    std::uint64_t count = 0;
    std::uint64_t given_up = 0;  // bytes of capacity
  };
  std::array<Bytes, std::size(kCauseNames)> written{};
  std::array<Finishes, std::size(kFinishNames)> finishes{};
  std::uint64_t resets_data = 0;
  std::uint64_t resets_metadata = 0;
  std::uint64_t flushes = 0;
};

// Safe to call from any thread.
class ZoneIo {
 public:
  explicit ZoneIo(ZonedDevice* device) : device_(device) {}

  const Geometry& geometry() const { return device_->geometry(); }

  Totals totals() const;

  // `buffer` has whole blocks, `payload` of its bytes are content. `written`: by how much the write
  // pointer moved, also after an error.
  IOStatus Write(Cause cause, std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                 std::uint64_t payload, std::uint64_t* written);
  // Any alignment: `offset` is relative to the zone.
  IOStatus Read(std::uint32_t zone, std::uint64_t offset, std::size_t size, char* to);
  // Makes everything written before the call durable. A flush that failed fails all later ones:
  // nobody knows any more what was lost.
  IOStatus Flush();
  IOStatus Finish(FinishCause cause, std::uint32_t zone, std::uint64_t given_up);
  IOStatus Reset(std::uint32_t zone, bool metadata);

 private:
  ZonedDevice* const device_;

  mutable std::mutex totals_mutex_;
  Totals totals_;  // guarded by totals_mutex_

  std::atomic<std::uint64_t> arrived_ = 0;  // calls of Flush
  std::mutex flush_mutex_;                  // held during each flush; guards what follows
  std::uint64_t covered_ = 0;               // of those calls, by flushes that began after them
  IOStatus failed_;
};

}  // namespace zlfs
