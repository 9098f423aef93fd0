// The only path to the device. It counts each command and merges concurrent flushes.

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

// Names of causes in the ledger, in the order of Cause.
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
  std::uint64_t flush_calls = 0;  // calls of Flush; concurrent calls share a flush
};

// Safe to call from any thread.
class ZoneIo {
 public:
  explicit ZoneIo(ZonedDevice* device) : device_(device) {}

  const Geometry& geometry() const { return device_->geometry(); }

  Totals totals() const;

  // `buffer` consists of whole blocks; `payload` of its bytes are content. Sets `written` to the
  // number of bytes by which the write pointer moved, also after an error.
  IOStatus Write(Cause cause, std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                 std::uint64_t payload, std::uint64_t* written);
  // Accepts any alignment. `offset` is relative to the zone.
  IOStatus Read(std::uint32_t zone, std::uint64_t offset, std::size_t size, char* to);
  // Makes everything durable that was written before the call. After a failed flush all later ones
  // fail, because the extent of the loss is unknown.
  IOStatus Flush();
  IOStatus Finish(FinishCause cause, std::uint32_t zone, std::uint64_t given_up);
  IOStatus Reset(std::uint32_t zone, bool metadata);
  // The functions below ask the device.
  IOStatus WritePointer(std::uint32_t zone, std::uint64_t* at);
  bool Lost(std::uint32_t zone);  // whether the zone is known to be offline

 private:
  ZonedDevice* const device_;

  mutable std::mutex totals_mutex_;
  Totals totals_;  // guarded by totals_mutex_

  std::atomic<std::uint64_t> arrived_ = 0;  // calls of Flush
  std::mutex flush_mutex_;                  // held during each flush; guards the members below
  std::uint64_t covered_ = 0;               // calls covered by a flush that began after them
  IOStatus failed_;
};

}  // namespace zlfs
