#include "zlfs/account/zone_io.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "zlfs/zoned/buffer.h"

namespace zlfs {

Totals ZoneIo::totals() const {
  const std::lock_guard lock(totals_mutex_);
  return totals_;
}

IOStatus ZoneIo::Write(Cause cause, std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                       std::uint64_t payload, std::uint64_t* written) {
  IOStatus status = device_->Write(zone, offset, buffer);
  *written = status.ok() ? buffer.size() : Landed(zone, offset);
  const std::uint64_t content = status.ok() ? payload : 0;
  const std::lock_guard lock(totals_mutex_);
  Totals::Bytes& bytes = totals_.written[static_cast<std::size_t>(cause)];
  bytes.payload += content;
  bytes.pad += *written - content;
  return status;
}

// The device counts the blocks that it took of a write before it failed: those behind `offset`.
std::uint64_t ZoneIo::Landed(std::uint32_t zone, std::uint64_t offset) {
  std::vector<ZoneInfo> info;
  if (!device_->Report(zone, 1, &info).ok() || !IsActive(info[0].condition)) return 0;
  return std::max(info[0].write_pointer, offset) - offset;
}

IOStatus ZoneIo::Read(std::uint32_t zone, std::uint64_t offset, std::size_t size, char* to) {
  const Geometry& geometry = device_->geometry();
  const std::uint64_t at = zone * geometry.zone_size + offset;
  const std::size_t unit = geometry.read_alignment;
  if (unit <= 1 ||
      (at % unit == 0 && size % unit == 0 && reinterpret_cast<std::uintptr_t>(to) % unit == 0)) {
    return device_->Read(at, size, to);
  }
  const std::uint64_t from = at / unit * unit;
  const std::size_t span = RoundUp(at + size - from, unit);
  // One buffer per thread: point reads are too many to allocate for each.
  thread_local AlignedBuffer bounce;
  thread_local std::size_t bounce_size = 0;
  if (bounce_size < span) {
    bounce = AllocateAligned(span);
    bounce_size = span;
  }
  const IOStatus status = device_->Read(from, span, bounce.get());
  if (status.ok()) std::memcpy(to, bounce.get() + (at - from), size);
  return status;
}

IOStatus ZoneIo::Flush() {
  const std::uint64_t ticket = ++arrived_;
  const std::lock_guard lock(flush_mutex_);
  if (covered_ >= ticket || !failed_.ok()) return failed_;  // one began while this call waited
  covered_ = arrived_;
  failed_ = device_->Flush();
  const std::lock_guard totals_lock(totals_mutex_);
  totals_.flushes += failed_.ok() ? 1 : 0;
  return failed_;
}

IOStatus ZoneIo::Finish(FinishCause cause, std::uint32_t zone, std::uint64_t given_up) {
  // A finished zone's write pointer says nothing about what was lost with the device's cache.
  if (const IOStatus status = Flush(); !status.ok()) return status;
  IOStatus status = device_->FinishZone(zone);
  if (!status.ok()) return status;
  const std::lock_guard lock(totals_mutex_);
  Totals::Finishes& finishes = totals_.finishes[static_cast<std::size_t>(cause)];
  ++finishes.count;
  finishes.given_up += given_up;
  return status;
}

IOStatus ZoneIo::Reset(std::uint32_t zone, bool metadata) {
  IOStatus status = device_->ResetZone(zone);
  if (!status.ok()) return status;
  const std::lock_guard lock(totals_mutex_);
  ++(metadata ? totals_.resets_metadata : totals_.resets_data);
  return status;
}

}  // namespace zlfs
