// A zoned device: what every part of zlfs that touches storage is written against.
//
// Offsets and sizes are bytes. A zone is named by its number; zone z occupies the device bytes
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

// kReadWrite is exclusive: a second one is refused with kBusy. kReadOnly works beside it.
enum class Access : std::uint8_t { kReadOnly, kReadWrite };

struct Geometry {
  std::uint32_t block_size = 0;  // 512 or 4096: unit and alignment of writes
  // Alignment of offset, length and address of reads. block_size where the kernel is read with
  // O_DIRECT; 1 where the back end is memory, so that readers need no bounce buffer.
  std::uint32_t read_alignment = 1;
  std::uint64_t zone_size = 0;
  std::uint32_t zone_count = 0;
  std::uint32_t max_active = 0;  // 0: no limit
  std::uint32_t max_open = 0;    // 0: no limit
  DeviceKind kind = DeviceKind::kKernel;
  std::string identity;  // survives renumbering; the harness forms the same string
  std::string path;      // for messages only
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
  std::uint64_t write_pointer = 0;  // from the zone's start; == capacity when full, however little
                                    // was written; meaningless in read-only and offline zones
  ZoneCondition condition = ZoneCondition::kEmpty;
};

// What the device accepted through this handle. Refused commands count nowhere; of a write that
// failed half way, the bytes by which it moved the write pointer count as written.
struct Counters {
  std::uint64_t bytes_written = 0;
  std::uint64_t writes = 0;
  std::uint64_t flushes = 0;
  std::uint64_t finishes = 0;
  std::uint64_t pad_bytes = 0;  // capacity given up by finishes: capacity less write pointer
  std::uint64_t resets = 0;
};

// Thread safety: every method may be called from any thread at any time. Commands on one zone
// are carried out one after the other (a lock per zone), commands on different zones in parallel.
// What the device can not know is the caller's: writes to one zone have to be issued in order (a
// write that is not at the write pointer is refused), and a zone must not be reset while somebody
// still reads it (reads take no lock; such a read returns old, new or zero bytes).
//
// A command is checked, carried out under its zone's lock, and counted, here and nowhere else; the
// kernel's and the emulated devices carry it out. A status that is not ok is made by MakeError
// (zoned/errors.h): its message starts with the error's name.
class ZonedDevice {
 public:
  ZonedDevice(const ZonedDevice&) = delete;
  ZonedDevice& operator=(const ZonedDevice&) = delete;
  virtual ~ZonedDevice() = default;

  // Constant while the device is open.
  const Geometry& geometry() const { return geometry_; }

  // Replaces `zones` by the state of `count` zones from zone `first` on.
  IOStatus Report(std::uint32_t first, std::uint32_t count, std::vector<ZoneInfo>* zones);

  // Writes the buffer at `offset` of the zone, which must be its write pointer. Address and length
  // of the buffer are multiples of block_size. Opens the zone implicitly when it is empty or
  // closed. The bytes may be in a volatile cache until Flush. `written`: by how much the write
  // pointer moved; after an error it may have moved by whole blocks.
  IOStatus Write(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                 std::uint64_t* written = nullptr);

  // Reads exactly `size` bytes at `offset` of the zone, within its capacity. Bytes at and above the
  // write pointer are unspecified (zeros on the emulated device).
  IOStatus Read(std::uint32_t zone, std::uint64_t offset, std::size_t size, char* buffer);

  // Every write accepted before this call survives a loss of power once it returns.
  IOStatus Flush();

  // Zone management. Opening an open zone, closing a closed one, finishing a full one and resetting
  // an empty one succeed without effect; other transitions that ZNS does not know are refused. A
  // reset is durable at once, and what the zone held is gone. So is a finish, but not the bytes
  // before it: after a loss of power a full zone may hold zeros above what was flushed.
  IOStatus OpenZone(std::uint32_t zone) { return ChangeZone(zone, ZoneCondition::kExplicitlyOpen); }
  IOStatus CloseZone(std::uint32_t zone) { return ChangeZone(zone, ZoneCondition::kClosed); }
  IOStatus FinishZone(std::uint32_t zone) { return ChangeZone(zone, ZoneCondition::kFull); }
  IOStatus ResetZone(std::uint32_t zone) { return ChangeZone(zone, ZoneCondition::kEmpty); }
  // One of these four, named by the condition that it brings the zone to.
  IOStatus ChangeZone(std::uint32_t zone, ZoneCondition to);

  Counters counters() const;

 protected:
  explicit ZonedDevice(Access access) : access_(access) {}
  // Before the first command.
  void SetGeometry(const Geometry& geometry);

  virtual std::uint64_t Capacity(std::uint32_t zone) const = 0;  // of an existing zone
  // The state of a zone as far as this handle knows without asking. Needs the zone's lock.
  virtual ZoneInfo Known(std::uint32_t zone) const = 0;

  // The commands themselves, with arguments that are in range and aligned. DoWrite and DoChange
  // come under the zone's lock, with a write pointer and a condition that allow them.
  virtual IOStatus DoReport(std::uint32_t first, std::uint32_t count,
                            std::vector<ZoneInfo>* zones) = 0;
  virtual IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                           std::uint64_t* written) = 0;
  virtual IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                          char* buffer) = 0;
  virtual IOStatus DoFlush() = 0;
  virtual IOStatus DoChange(std::uint32_t zone, ZoneCondition to) = 0;

  IOStatus Fail(DeviceError::Name error, std::uint32_t zone, std::string_view detail) const;
  // Whether a zone of this condition may be brought to condition `to`, and still works at all.
  IOStatus CheckChange(std::uint32_t zone, ZoneCondition from, ZoneCondition to) const;

  const Access access_;
  Geometry geometry_;  // set once, while the device is opened

 private:
  IOStatus CheckAccess() const;
  IOStatus CheckRange(std::uint32_t first, std::uint32_t count) const;

  std::unique_ptr<std::mutex[]> zone_mutexes_;  // order the commands on each zone
  mutable std::mutex counters_mutex_;
  Counters counters_;  // guarded by counters_mutex_
};

}  // namespace zlfs
