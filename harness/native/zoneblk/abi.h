// The part of the kernel's ublk interface (linux/ublk_cmd.h, 6.6 and later) that zoneblk uses. It
// is declared here because headers of Linux 6.1 lack zones. Its names do not clash with the
// kernel's header.

#pragma once

#include <sys/ioctl.h>

#include <cstdint>

namespace zoneblk::abi {

constexpr const char* kControl = "/dev/ublk-control";

// Layout of the queue's descriptors and of data in the character device.
constexpr std::uint64_t kDataOffset = 0x80000000;
constexpr unsigned kTagShift = 25;

struct ControlCommand {
  std::uint32_t device;
  std::uint16_t queue;  // 0xffff: not for a queue
  std::uint16_t length;
  std::uint64_t address;
  std::uint64_t data;
  std::uint16_t path_length;
  std::uint16_t pad;
  std::uint32_t reserved;
};
static_assert(sizeof(ControlCommand) == 32);

struct DeviceInfo {
  std::uint16_t queues;
  std::uint16_t depth;
  std::uint16_t state;
  std::uint16_t pad0;
  std::uint32_t most_bytes;  // of a request
  std::uint32_t device;      // ~0: the kernel chooses
  std::int32_t server;       // process
  std::uint32_t pad1;
  std::uint64_t flags;
  std::uint64_t server_flags;
  std::uint32_t uid, gid;
  std::uint64_t reserved[2];
};
static_assert(sizeof(DeviceInfo) == 64);

constexpr std::uint64_t kUserCopy = 1 << 7;  // the server moves data by pread and pwrite
constexpr std::uint64_t kZoned = 1 << 8;

struct Basic {
  std::uint32_t attributes;
  std::uint8_t logical_shift, physical_shift, optimal_shift, minimal_shift;
  std::uint32_t most_sectors;
  std::uint32_t chunk_sectors;  // zone size
  std::uint64_t sectors;
  std::uint64_t virt_boundary;
};
struct Discard {
  std::uint32_t alignment, granularity, most_sectors, most_zeroes_sectors;
  std::uint16_t most_segments, reserved;
};
struct Numbers {
  std::uint32_t char_major, char_minor, disk_major, disk_minor;
};
struct Zoned {
  std::uint32_t most_open, most_active, most_append_sectors;
  std::uint8_t reserved[20];
};
struct Parameters {
  std::uint32_t length;
  std::uint32_t types;
  Basic basic;
  Discard discard;
  Numbers numbers;
  Zoned zoned;
};
static_assert(sizeof(Basic) == 32 && sizeof(Discard) == 20 && sizeof(Zoned) == 32);
static_assert(sizeof(Parameters) == 112);

constexpr std::uint32_t kHasBasic = 1 << 0;
constexpr std::uint32_t kHasDiscard = 1 << 1;
constexpr std::uint32_t kHasZoned = 1 << 3;

constexpr std::uint16_t kDead = 0;  // state of a device without a server

constexpr auto kGetInfo = static_cast<std::uint32_t>(_IOR('u', 0x02, ControlCommand));
constexpr auto kAddDevice = static_cast<std::uint32_t>(_IOWR('u', 0x04, ControlCommand));
constexpr auto kDeleteDevice = static_cast<std::uint32_t>(_IOWR('u', 0x05, ControlCommand));
constexpr auto kStartDevice = static_cast<std::uint32_t>(_IOWR('u', 0x06, ControlCommand));
constexpr auto kStopDevice = static_cast<std::uint32_t>(_IOWR('u', 0x07, ControlCommand));
constexpr auto kSetParameters = static_cast<std::uint32_t>(_IOWR('u', 0x08, ControlCommand));
constexpr auto kGetFeatures = static_cast<std::uint32_t>(_IOR('u', 0x13, ControlCommand));
constexpr auto kDeleteLater = static_cast<std::uint32_t>(_IOR('u', 0x14, ControlCommand));

// A request of the kernel. The low byte of `op_flags` is the operation.
struct Description {
  std::uint32_t op_flags;
  std::uint32_t count;  // sectors, or zones of a report
  std::uint64_t sector;
  std::uint64_t address;
};
static_assert(sizeof(Description) == 24);

struct IoCommand {
  std::uint16_t queue, tag;
  std::int32_t result;
  std::uint64_t append_sector;  // of an append; otherwise an address, which must be 0
};
static_assert(sizeof(IoCommand) == 16);

constexpr auto kFetch = static_cast<std::uint32_t>(_IOWR('u', 0x20, IoCommand));
constexpr auto kCommitAndFetch = static_cast<std::uint32_t>(_IOWR('u', 0x21, IoCommand));

enum Operation : std::uint8_t {
  kRead = 0,
  kWrite = 1,
  kFlush = 2,
  kDiscard = 3,
  kZoneOpen = 10,
  kZoneClose = 11,
  kZoneFinish = 12,
  kZoneAppend = 13,
  kZoneResetAll = 14,
  kZoneReset = 15,
  kReportZones = 18,
};

}  // namespace zoneblk::abi
