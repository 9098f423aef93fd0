// Decides which zone takes the next bytes, which zones are finished, reset and collected.
//
// A pure state machine: no I/O, clock, thread or lock. Its decisions are a function of its
// construction and the sequence of calls alone, so that a recorded sequence can be replayed. The
// caller carries decisions out and reports back; it also serialises the calls.

#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "zlfs/alloc/policy.h"

namespace zlfs {

// Why bytes are written: decides where they go, and how many empty zones have to be left.
enum class Cause : std::uint8_t {
  kWal,         // what is new
  kFlush,       // lets WALs go; opening a database flushes all of them
  kCompaction,  // gives back more than it takes
  kOther,       // MANIFEST, CURRENT, OPTIONS: little, and without them no database opens
  kImport,      // what is new
  kGc,          // frees more than it takes: may use the last zone
  kMetadata,    // zones of its own
};

// These fill one zone at a time and always find an active zone left. All others are data: each
// writer has a zone to itself where the limits allow it.
constexpr bool IsShared(Cause cause) {
  return cause == Cause::kWal || cause == Cause::kOther || cause == Cause::kGc;
}
inline constexpr std::uint32_t kSharedCauses = 3;

enum class ZoneUse : std::uint8_t {
  kUnusable,  // metadata, read-only, offline
  kEmpty,
  kActive,
  kFinishing,  // being finished by the caller
  kFull,
  kResetting,  // being reset by the caller
};

// What content keeps of a zone, in bytes.
struct Kept {
  std::uint64_t live = 0;    // of files
  std::uint64_t held = 0;    // in blocks that cannot be garbage: headers and padding included
  std::uint64_t packed = 0;  // in blocks that a copy of it takes: a WAL's pieces need less

  Kept& operator+=(const Kept& other) {
    live += other.live;
    held += other.held;
    packed += other.packed;
    return *this;
  }
  Kept& operator-=(const Kept& other) {
    assert(live >= other.live && held >= other.held && packed >= other.packed);
    live -= other.live;
    held -= other.held;
    packed -= other.packed;
    return *this;
  }
};

struct ZoneSpace {
  std::uint64_t capacity = 0;
  std::uint64_t written = 0;    // write pointer: completed writes
  std::uint64_t in_flight = 0;  // granted, not completed
  Kept kept = {};
  std::uint8_t lifetime = 0;  // of the first writer since it was empty
  std::uint64_t opened = 0;   // clock() when it became active
  std::uint64_t last_write = 0;
  std::uint64_t owner = 0;                        // writer of data, 0: none
  std::optional<Cause> shared_by = std::nullopt;  // the shared cause that fills it now
  ZoneUse use = ZoneUse::kEmpty;
  bool broken = false;  // a write failed: takes no more, but is active until it is reset
  bool active = false;  // counts against the device's limit

  std::uint64_t room() const { return capacity - written - in_flight; }
};

struct AllocatorSetup {
  Policy policy;
  std::uint32_t block_size = 0;
  std::uint32_t active_budget = 0;    // active zones for data; 0: no limit
  std::vector<ZoneSpace> zones = {};  // capacity, written, kept, lifetime and use count
  std::uint64_t log_bytes = 0;        // content of WALs
};

// What a writer says about its bytes.
struct Placement {
  Cause cause = Cause::kOther;
  // Data of a flush or compaction. These end by themselves, others when a user pleases: compactions
  // wait for no other writer, flushes only for compactions, and no job for space without end.
  bool job = false;
  std::uint8_t lifetime = 0;  // Env::WriteLifeTimeHint
};

struct Request {
  Placement placement;
  std::uint64_t writer = 0;  // of data: not 0
  std::uint64_t size = 0;    // whole blocks
};

struct Decision {
  enum class Kind : std::uint8_t {
    kGrant,    // write `size` bytes (at most what was asked) to `zone`, then call Written or Failed
    kFinish,   // finish `zone`, call Finished, ask again
    kWait,     // ask again when a writer left its zone, or something was done to a zone
    kNoSpace,  // free something, ask again
  };
  Kind kind = Kind::kNoSpace;
  std::uint32_t zone = 0;
  std::uint64_t size = 0;
};

// What a writer of `written` bytes moves of the victim: by the time it has filled what the victim's
// garbage takes, the victim is free.
inline std::uint64_t PriceOf(const ZoneSpace& victim, std::uint64_t written) {
  const std::uint64_t gain = std::max<std::uint64_t>(victim.capacity - victim.kept.packed, 1);
  return written + written * victim.kept.packed / gain;
}

class Allocator {
 public:
  explicit Allocator(AllocatorSetup setup);

  Decision Allocate(const Request& request);
  // A granted write is done.
  void Written(std::uint32_t zone, const Kept& kept);
  // It failed after `written` bytes: the zone takes no more.
  void Failed(std::uint32_t zone, std::uint64_t size, std::uint64_t written);
  // The writer will ask no more. Returns a zone to finish (it is kFinishing then): with `finish`
  // the writer's, whatever room it has.
  std::optional<std::uint32_t> Leave(std::uint64_t writer, bool finish = false);
  void Finished(std::uint32_t zone);
  // The fullest active zone that nobody writes and that is not in `spared`, to be finished (it is
  // kFinishing then).
  std::optional<std::uint32_t> TakeFullest(const std::vector<bool>& spared = {});

  // What kept that much is garbage now.
  void Freed(std::uint32_t zone, const Kept& kept);
  // WALs got longer, or one was deleted: opening the database would flush that much more or less.
  void LogsGrew(std::uint64_t bytes) { log_bytes_ += bytes; }
  void LogsShrank(std::uint64_t bytes) { log_bytes_ -= bytes; }

  // Zones without live bytes that may be reset: full ones; with `hard` active ones that nobody
  // writes.
  std::vector<std::uint32_t> Resettable(bool hard) const;
  void BeginReset(std::uint32_t zone);
  void ResetDone(std::uint32_t zone);
  // Never written again, and not reset either.
  void Retire(std::uint32_t zone);

  // A job that writes has not left yet. It will, and may give back more than it took: log and other
  // small files can wait for that.
  bool JobsWrite() const;
  // Few empty zones are left: collecting should go on.
  bool LowSpace() const;
  // The full zone that is best collected, if any gains enough.
  std::optional<std::uint32_t> PickVictim() const;

  const std::vector<ZoneSpace>& zones() const { return zones_; }
  const ZoneSpace& zone(std::uint32_t zone) const { return zones_[zone]; }
  std::uint32_t zone_count() const { return static_cast<std::uint32_t>(zones_.size()); }
  std::uint32_t empty_zones() const { return empty_; }
  std::uint32_t active_zones() const {
    return static_cast<std::uint32_t>(std::ranges::count(zones_, true, &ZoneSpace::active));
  }
  // Empty zones that what is new leaves alone.
  std::uint32_t kept_zones() const { return Keeps(Cause::kImport); }
  // Bytes written so far: the only time there is.
  std::uint64_t clock() const { return clock_; }

 private:
  struct Writer {
    Placement placement;
    std::optional<std::uint32_t> zone = std::nullopt;  // its own
  };

  Decision AllocateShared(const Request& request);
  Decision AllocateData(const Request& request);
  Decision Grant(std::uint32_t zone, std::uint64_t size);
  // Empty zones that have to be left.
  std::uint32_t Keeps(Cause cause) const;
  // The same for WALs that get `room` bytes more to fill.
  std::uint32_t KeepsWithLogs(std::uint64_t room) const;
  bool MayOpen(Cause cause) const;
  bool CompactionsOwn() const;
  std::uint32_t OpenEmpty(std::uint8_t lifetime);
  bool Writable(const ZoneSpace& zone) const;
  enum class Of : std::uint8_t { kUnowned, kIdle, kAny };
  // An active zone that no shared cause fills, and that is not in `spared`. Nearest lifetime first,
  // if that matters, then the fullest.
  std::optional<std::uint32_t> NearestActive(std::optional<std::uint8_t> lifetime, Of of,
                                             const std::vector<bool>& spared = {}) const;
  // No zone to be had: is there about to be one?
  Decision WaitOrNoSpace(bool space) const;
  void FillIfFull(std::uint32_t zone);
  void MakeFull(ZoneSpace* zone);
  void Detach(ZoneSpace* zone);

  const Policy policy_;
  const std::uint32_t block_size_;
  const std::uint32_t active_budget_;
  std::vector<ZoneSpace> zones_;
  std::unordered_map<std::uint64_t, Writer> writers_;  // of data, that have not left
  std::map<Cause, std::uint32_t> current_;             // zones that shared causes fill
  std::uint32_t empty_ = 0;
  std::uint32_t spare_ = 0;      // empty zones that only what is new leaves alone
  std::uint32_t gc_start_ = 0;   // empty zones
  std::uint64_t capacity_ = 1;   // of the smallest zone
  std::uint64_t log_bytes_ = 0;  // content of WALs
  std::uint32_t log_zones_ = 0;  // that WALs began to fill since the mount
  std::uint32_t cursor_ = 0;     // empty zones are taken in turn, so that they wear alike
  std::uint64_t clock_ = 0;
};

}  // namespace zlfs
