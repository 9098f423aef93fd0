#include "zlfs/alloc/reserve.h"

namespace zlfs {
namespace {

// Empty zones that flushes must leave: one for the collector, one for the MANIFEST.
constexpr std::uint32_t kFlushKeeps = 2;
// Additional empty zones that all other causes must leave. One is for the WAL that opening a
// database begins. The other is needed because tables are larger than the WALs they replace.
constexpr std::uint32_t kOpeningKeeps = 2;

}  // namespace

std::uint32_t Reserve::WithLogs(std::uint64_t room) const {
  // Tables are larger than the WALs' content because of indexes and filters.
  const std::uint64_t content = log_bytes + room;
  const std::uint64_t to_flush = (content + content / 8 + zone_capacity - 1) / zone_capacity;
  return kFlushKeeps + kOpeningKeeps + static_cast<std::uint32_t>(to_flush);
}

std::uint32_t Reserve::For(Cause cause) const {
  switch (cause) {
    case Cause::kGc:
      return 0;
    case Cause::kOther:
      return 1;
    case Cause::kFlush:
      return log_zones == 0 ? kFlushKeeps : WithLogs(log_room);
    case Cause::kCompaction:
      return WithLogs(log_room);
    default:
      if (log_zones > 0) return WithLogs(log_room + zone_capacity) + spare;
      // The first zone of a mount for WALs. With old WALs, it takes the WAL that an opening
      // database begins before it deletes them. Otherwise it takes the WAL in which a full database
      // logs deletions.
      return log_bytes > 0 ? kFlushKeeps : WithLogs(0);
  }
}

}  // namespace zlfs
