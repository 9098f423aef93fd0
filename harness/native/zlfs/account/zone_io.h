// The one door to the device: each command that goes through it is in the ledger, and concurrent
// flushes share one command.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "zlfs/account/ledger.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

// Safe to call from any thread.
class ZoneIo {
 public:
  ZoneIo(ZonedDevice* device, Ledger* ledger) : device_(device), ledger_(ledger) {}

  const Geometry& geometry() const { return device_->geometry(); }

  // `buffer` has whole blocks, `payload` of its bytes are content.
  IOStatus Write(Cause cause, std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                 std::uint64_t payload);
  // Any alignment: `offset` is relative to the zone.
  IOStatus Read(std::uint32_t zone, std::uint64_t offset, std::size_t size, char* to);
  // Makes everything written before the call durable. A flush that failed fails all later ones:
  // nobody knows any more what was lost.
  IOStatus Flush();
  IOStatus Finish(FinishCause cause, std::uint32_t zone, std::uint64_t given_up);
  IOStatus Reset(std::uint32_t zone, bool metadata);

 private:
  ZonedDevice* const device_;
  Ledger* const ledger_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::uint64_t started_ = 0;  // flushes
  std::uint64_t finished_ = 0;
  bool flushing_ = false;
  IOStatus failed_;
};

}  // namespace zlfs
