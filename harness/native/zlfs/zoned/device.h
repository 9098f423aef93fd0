// The zoned device interface. All storage access in zlfs uses it.
//
// Offsets and sizes are in bytes. Zones are numbered from 0; zone z occupies the device bytes
// [z * zone_size, z * zone_size + capacity). Write pointers are relative to the start of the zone.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "rocksdb/slice.h"
#include "zlfs/zoned/errors.h"

namespace zlfs {

using rocksdb::Slice;

enum class DeviceKind : std::uint8_t { kKernel, kMemory, kFile };

// kReadWrite is exclusive: a second read-write open fails with kBusy. kReadOnly opens still
// succeed. kReadAlone reads while nobody can write: it fails with kBusy beside a read-write handle,
// and keeps one from being opened.
enum class Access : std::uint8_t { kReadOnly, kReadAlone, kReadWrite };

struct Geometry {
  std::uint32_t block_size = 0;  // 512 or 4096: unit and alignment of writes
  // Alignment of the offset, length and address of reads. It is block_size for kernel devices,
  // which use O_DIRECT. It is 1 for emulated and modelled devices, so that readers need no bounce
  // buffer.
  std::uint32_t read_alignment = 1;
  std::uint64_t zone_size = 0;
  std::uint32_t zone_count = 0;
  std::uint32_t max_active = 0;  // 0: no limit
  std::uint32_t max_open = 0;    // 0: no limit
  DeviceKind kind = DeviceKind::kKernel;
  bool waits = true;     // commands take so long that helper threads pay off
  std::string identity;  // stable when devices are renumbered; the harness derives the same string
  std::string path;      // used in messages only
};

enum class ZoneCondition : std::uint8_t {
  kEmpty,
  kImplicitlyOpen,
  kExplicitlyOpen,
  kClosed,
  kFull,
  kReadOnly,
  kOffline,
  kNoWritePointer,  // a conventional zone
};

constexpr bool IsOpen(ZoneCondition c) {
  return c == ZoneCondition::kImplicitlyOpen || c == ZoneCondition::kExplicitlyOpen;
}
constexpr bool IsActive(ZoneCondition c) { return IsOpen(c) || c == ZoneCondition::kClosed; }

struct ZoneInfo {
  std::uint64_t capacity = 0;       // writable bytes, <= zone_size
  std::uint64_t write_pointer = 0;  // relative to the zone start; equals capacity in a full zone,
                                    // 0 in read-only and offline zones, where Linux reports none
  ZoneCondition condition = ZoneCondition::kEmpty;
};

// Commands that the device accepted through this handle. Rejected commands are not counted. A write
// that fails part way counts the bytes by which it moved the write pointer.
struct Counters {
  std::uint64_t bytes_written = 0;
  std::uint64_t writes = 0;
  std::uint64_t flushes = 0;
  std::uint64_t finishes = 0;
  std::uint64_t pad_bytes = 0;  // capacity lost to finishes: capacity minus write pointer
  std::uint64_t resets = 0;
};

// Thread safety: all methods are thread-safe. A lock per zone serializes the commands on that zone;
// commands on different zones run in parallel. The caller has two duties:
// - It issues the writes to a zone in order. A write that is not at the write pointer fails.
// - It does not reset a zone during a read. Reads take no lock, so such a read returns old, new or
//   zero bytes.
//
// This class checks commands, takes the zone's lock and updates the counters. Subclasses execute
// the commands. MakeError (zoned/errors.h) creates all error statuses, so each message starts with
// the error name.
class ZonedDevice {
 public:
  ZonedDevice(const ZonedDevice&) = delete;
  ZonedDevice& operator=(const ZonedDevice&) = delete;
  virtual ~ZonedDevice() = default;

  // Does not change while the device is open.
  const Geometry& geometry() const { return geometry_; }

  // Replaces the contents of `zones` with the state of `count` zones, starting at zone `first`.
  IOStatus Report(std::uint32_t first, std::uint32_t count, std::vector<ZoneInfo>* zones);

  // Writes the buffer at `offset` of the zone, which must equal the write pointer. The address and
  // length of the buffer are multiples of block_size. An empty or closed zone is opened implicitly.
  // The data may stay in a volatile cache until Flush. `written` receives the distance by which the
  // write pointer moved: after an error, any number of whole blocks.
  IOStatus Write(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                 std::uint64_t* written = nullptr);

  // Reads exactly `size` bytes at `offset` of the zone, within its capacity. Bytes at or above the
  // write pointer are unspecified; the emulated device returns zeros.
  IOStatus Read(std::uint32_t zone, std::uint64_t offset, std::size_t size, char* buffer);

  // After this call returns, all writes accepted before it survive a power loss.
  IOStatus Flush();

  // Zone management. Opening an open zone, closing a closed one, finishing a full one and resetting
  // an empty one succeed without effect. Transitions that ZNS does not define fail.
  //
  // A reset is durable at once and discards the zone's data. A finish is also durable at once, but
  // earlier writes are not: after a power loss, unflushed data in a full zone may read as zeros.
  IOStatus OpenZone(std::uint32_t zone) { return ChangeZone(zone, ZoneCondition::kExplicitlyOpen); }
  IOStatus CloseZone(std::uint32_t zone) { return ChangeZone(zone, ZoneCondition::kClosed); }
  IOStatus FinishZone(std::uint32_t zone) { return ChangeZone(zone, ZoneCondition::kFull); }
  IOStatus ResetZone(std::uint32_t zone) { return ChangeZone(zone, ZoneCondition::kEmpty); }
  // Performs one of these four operations, selected by the target condition.
  IOStatus ChangeZone(std::uint32_t zone, ZoneCondition to);

  Counters counters() const;

 protected:
  explicit ZonedDevice(Access access) : access_(access) {}
  // Must be called before the first command.
  void SetGeometry(const Geometry& geometry);

  virtual std::uint64_t Capacity(std::uint32_t zone) const = 0;  // `zone` must exist
  // The state of a zone as this handle tracks it, without a query. Requires the zone's lock.
  virtual ZoneInfo Known(std::uint32_t zone) const = 0;

  // Execute the commands. Arguments are in range and aligned. DoWrite and DoChange are called with
  // the zone's lock held, when the tracked write pointer and condition allow the command.
  virtual IOStatus DoReport(std::uint32_t first, std::uint32_t count,
                            std::vector<ZoneInfo>* zones) = 0;
  virtual IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                           std::uint64_t* written) = 0;
  virtual IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                          char* buffer) = 0;
  virtual IOStatus DoFlush() = 0;
  virtual IOStatus DoChange(std::uint32_t zone, ZoneCondition to) = 0;

  IOStatus Fail(DeviceError::Name error, std::uint32_t zone, std::string_view detail) const;
  // Fails if the zone is read-only or offline, or if the transition is not allowed.
  IOStatus CheckChange(std::uint32_t zone, ZoneCondition from, ZoneCondition to) const;

  const Access access_;
  Geometry geometry_;  // set once, when the device is opened

 private:
  IOStatus CheckAccess() const;
  IOStatus CheckRange(std::uint32_t first, std::uint32_t count) const;

  std::unique_ptr<std::mutex[]> zone_mutexes_;  // serialize the commands on each zone
  mutable std::mutex counters_mutex_;
  Counters counters_;  // guarded by counters_mutex_
};

}  // namespace zlfs
