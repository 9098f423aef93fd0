#include "zlfs/account/zone_io.h"

#include <cstring>
#include <vector>

#include "zlfs/zoned/buffer.h"

namespace zlfs {

Totals ZoneIo::totals() const {
  const std::lock_guard lock(totals_mutex_);
  Totals totals = totals_;
  totals.flush_calls = arrived_;
  return totals;
}

IOStatus ZoneIo::Write(Cause cause, std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                       std::uint64_t payload, std::uint64_t* written) {
  const IOStatus status = device_->Write(zone, offset, buffer, written);
  const std::uint64_t content = status.ok() ? payload : 0;
  const std::lock_guard lock(totals_mutex_);
  Totals::Bytes& bytes = totals_.written[static_cast<std::size_t>(cause)];
  bytes.payload += content;
  bytes.pad += *written - content;
  return status;
}

IOStatus ZoneIo::Read(std::uint32_t zone, std::uint64_t offset, std::size_t size, char* to) {
  const std::size_t unit = device_->geometry().read_alignment;
  if ((offset | size) % unit == 0 && Aligned(to, unit)) {
    return device_->Read(zone, offset, size, to);
  }
  const std::uint64_t from = offset / unit * unit;
  const std::size_t span = RoundUp(offset + size - from, unit);
  // One buffer per thread: an allocation for each point read costs too much.
  thread_local AlignedBuffer bounce;
  thread_local std::size_t bounce_size = 0;
  if (bounce_size < span) {
    bounce = AllocateAligned(span);
    bounce_size = span;
  }
  RETURN_IF_ERROR(device_->Read(zone, from, span, bounce.get()));
  std::memcpy(to, bounce.get() + (offset - from), size);
  return IOStatus::OK();
}

IOStatus ZoneIo::Flush() {
  const std::uint64_t ticket = ++arrived_;
  const std::lock_guard lock(flush_mutex_);
  // A flush that began after this call covers it. It can have failed.
  if (covered_ >= ticket || !failed_.ok()) return failed_;
  covered_ = arrived_;
  failed_ = device_->Flush();
  const std::lock_guard totals_lock(totals_mutex_);
  totals_.flushes += failed_.ok() ? 1 : 0;
  return failed_;
}

IOStatus ZoneIo::Finish(FinishCause cause, std::uint32_t zone, std::uint64_t given_up) {
  // The write pointer of a finished zone does not show which data the device's cache lost. So
  // nothing may be in the cache.
  RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(device_->FinishZone(zone));
  const std::lock_guard lock(totals_mutex_);
  Totals::Finishes& finishes = totals_.finishes[static_cast<std::size_t>(cause)];
  ++finishes.count;
  finishes.given_up += given_up;
  return IOStatus::OK();
}

IOStatus ZoneIo::WritePointer(std::uint32_t zone, std::uint64_t* at) {
  std::vector<ZoneInfo> info;
  RETURN_IF_ERROR(device_->Report(zone, 1, &info));
  *at = info[0].write_pointer;
  return IOStatus::OK();
}

bool ZoneIo::Lost(std::uint32_t zone) {
  std::vector<ZoneInfo> info;
  return device_->Report(zone, 1, &info).ok() && info[0].condition == ZoneCondition::kOffline;
}

IOStatus ZoneIo::Reset(std::uint32_t zone, bool metadata) {
  RETURN_IF_ERROR(device_->ResetZone(zone));
  const std::lock_guard lock(totals_mutex_);
  ++(metadata ? totals_.resets_metadata : totals_.resets_data);
  return IOStatus::OK();
}

}  // namespace zlfs
