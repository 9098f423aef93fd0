// Decides which zone takes the next bytes, and which zones are finished, reset and collected.
//
// A pure state machine: no I/O, clock, thread or lock. Its decisions depend only on its setup and
// the sequence of calls, so a recorded sequence can be replayed. The caller carries out the
// decisions, reports the results and serialises the calls.

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

// The reason for a write. It decides the zone and the number of empty zones that must remain.
enum class Cause : std::uint8_t {
  kWal,         // new data
  kFlush,       // makes WALs obsolete; opening a database flushes all of them
  kCompaction,  // frees more than it writes
  kOther,       // MANIFEST, CURRENT, OPTIONS: small, but no database opens without them
  kImport,      // new data
  kGc,          // frees more than it writes, so it can use the last zone
  kMetadata,    // has its own zones
};

// A shared cause fills one zone at a time, and an active zone is reserved for it. All other causes
// are data: each writer has its own zone if the limits allow it.
constexpr bool IsShared(Cause cause) {
  return cause == Cause::kWal || cause == Cause::kOther || cause == Cause::kGc;
}
inline constexpr std::uint32_t kSharedCauses = 3;

enum class ZoneUse : std::uint8_t {
  kUnusable,  // metadata, read-only, offline
  kEmpty,
  kActive,
  kFinishing,  // the caller finishes it
  kFull,
  kResetting,  // the caller resets it
  kSettling,   // a write failed: the caller learns the zone's state from the device
};

// Bytes of a zone that are in use.
struct Kept {
  std::uint64_t live = 0;    // content of files
  std::uint64_t held = 0;    // blocks with live content, including headers and padding
  std::uint64_t packed = 0;  // bytes of a copy: less for WALs, whose headers it omits

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
  std::uint64_t written = 0;    // write pointer after the completed writes
  std::uint64_t in_flight = 0;  // granted, not completed
  Kept kept = {};
  Kept released = {};         // part of `kept` that the next commit makes garbage
  std::uint8_t lifetime = 0;  // of the first writer since the last reset
  std::uint64_t opened = 0;   // clock() when it became active
  std::uint64_t last_write = 0;
  std::uint64_t owner = 0;                        // the data writer; 0: none
  std::optional<Cause> shared_by = std::nullopt;  // the shared cause that fills it now
  ZoneUse use = ZoneUse::kEmpty;
  bool broken = false;        // a command failed: no more writes before the next reset
  bool unreadable = false;    // a read failed: not collected before the next mount
  bool active = false;        // counts against the device's limit
  std::uint8_t failures = 0;  // failed commands since the mount, also across resets

  std::uint64_t room() const { return capacity - written - in_flight; }
};

struct AllocatorSetup {
  Policy policy;
  std::uint32_t block_size = 0;
  std::uint32_t active_budget = 0;    // active zones for data; 0: no limit
  std::vector<ZoneSpace> zones = {};  // uses capacity, written, kept, lifetime and use
  std::uint64_t log_bytes = 0;        // content of WALs
  // Whether a victim's score leaves out released content. False only for a trace of version 1.
  bool skip_released = true;
};

// A writer's description of its bytes.
struct Placement {
  Cause cause = Cause::kOther;
  // Data of a flush or compaction. A job ends by itself; the user ends all other writers.
  // Compactions wait for no other writer, flushes only for compactions, and no job waits for space
  // forever.
  bool job = false;
  std::uint8_t lifetime = 0;  // Env::WriteLifeTimeHint
};

struct Request {
  Placement placement;
  std::uint64_t writer = 0;  // a data writer has a nonzero number
  std::uint64_t size = 0;    // whole blocks
};

struct Decision {
  enum class Kind : std::uint8_t {
    kGrant,    // write `size` bytes (at most the request) to `zone`, then call Written or Failed
    kFinish,   // finish `zone`, call Finished, then repeat the request
    kWait,     // repeat the request after a writer left its zone or a zone changed
    kNoSpace,  // free space, then repeat the request
  };
  Kind kind = Kind::kNoSpace;
  std::uint32_t zone = 0;
  std::uint64_t size = 0;
};

// Bytes of the victim to copy when a writer has written `written` bytes. The victim is empty before
// the writer has written as many bytes as the victim gains.
inline std::uint64_t PriceOf(const ZoneSpace& victim, std::uint64_t written) {
  const std::uint64_t packed = victim.kept.packed - victim.released.packed;
  const std::uint64_t gain = std::max<std::uint64_t>(victim.capacity - packed, 1);
  return written + written * packed / gain;
}

struct Reserve;

class Allocator {
 public:
  explicit Allocator(AllocatorSetup setup);

  // Whether the request would open an empty zone if a running finish had ended. The caller then
  // waits for it: otherwise the writer would share a zone, or finish another one.
  bool AwaitsFinish(const Request& request) const;
  Decision Allocate(const Request& request);
  // Completes a granted write.
  void Written(std::uint32_t zone, const Kept& kept);
  // Reports a granted write that failed after `written` bytes. The zone takes no more writes. Until
  // Settled, it is kSettling: a reset now would race with the caller's commands.
  void Failed(std::uint32_t zone, std::uint64_t size, std::uint64_t written);
  // Returns a grant that was not written.
  void Canceled(std::uint32_t zone, std::uint64_t size);
  // Returns a grant for which the device has no active or open zone left: something else uses its
  // limits. Until an active zone ends, an empty zone is opened only if no other can be shared. A
  // zone that was to be opened takes no more writes before its reset, which ends its log.
  void Refused(std::uint32_t zone, std::uint64_t size);
  // State of a zone on the device after a failed command.
  enum class After : std::uint8_t {
    kActive,  // still active, but it takes no more writes
    kClosed,  // full, or empty: its next reset makes it usable again
    kLost,    // read-only or offline
  };
  void Settled(std::uint32_t zone, After after);
  // Ends a writer. Returns its zone if the caller must finish it; that zone is then kFinishing.
  // `finish` finishes the zone however much room it has.
  std::optional<std::uint32_t> Leave(std::uint64_t writer, bool finish = false);
  void Finished(std::uint32_t zone);
  // Returns the fullest active zone without a writer that is not in `spared`. It is then
  // kFinishing, and the caller finishes it.
  std::optional<std::uint32_t> TakeFullest(const std::vector<bool>& spared = {});

  // No file needs this much of the zone's content, but the durable log still refers to it.
  void Released(std::uint32_t zone, const Kept& kept) { zones_[zone].released += kept; }
  // Turns this much of the zone's content into garbage. `released`: Released announced it.
  void Freed(std::uint32_t zone, const Kept& kept, bool released = false);
  // The WALs' size changed, and with it the size of the flush that opening the database causes.
  void LogsGrew(std::uint64_t bytes) { log_bytes_ += bytes; }
  void LogsShrank(std::uint64_t bytes) { log_bytes_ -= bytes; }

  // Zones without live bytes that can be reset: full zones and broken active zones without an
  // owner. With `hard`, also other active zones that no writer and no shared cause fills.
  std::vector<std::uint32_t> Resettable(bool hard) const;
  void BeginReset(std::uint32_t zone);
  void ResetDone(std::uint32_t zone);
  // Excludes the zone from all later writes and resets.
  void Retire(std::uint32_t zone);

  // Whether a job is still writing. Its end can free space, so WALs and other small files can wait
  // for it.
  bool JobsWrite() const;
  // Whether so few zones are empty or being reset that the collector must work.
  bool LowSpace() const;
  // Excludes a zone whose content cannot be read from collection.
  void Unreadable(std::uint32_t zone) { zones_[zone].unreadable = true; }
  // The best full zone to collect, if any gains enough.
  std::optional<std::uint32_t> PickVictim() const;

  const std::vector<ZoneSpace>& zones() const { return zones_; }
  const ZoneSpace& zone(std::uint32_t zone) const { return zones_[zone]; }
  std::uint32_t zone_count() const { return static_cast<std::uint32_t>(zones_.size()); }
  std::uint32_t empty_zones() const { return empty_; }
  std::uint32_t active_zones() const {
    return static_cast<std::uint32_t>(std::ranges::count(zones_, true, &ZoneSpace::active));
  }
  // Empty zones that new data must leave.
  std::uint32_t kept_zones() const { return Keeps(Cause::kImport); }
  // Bytes written so far; the allocator has no other clock.
  std::uint64_t clock() const { return clock_; }

 private:
  struct Writer {
    Placement placement;
    std::optional<std::uint32_t> zone = std::nullopt;  // owned by this writer
  };

  Decision AllocateShared(const Request& request);
  Decision AllocateData(const Request& request);
  Decision Grant(std::uint32_t zone, std::uint64_t size);
  // Empty zones that the cause must leave.
  std::uint32_t Keeps(Cause cause) const;
  Reserve Reserved() const;
  bool MayOpen(Cause cause) const { return !refused_ && WithinLimit(cause); }
  bool WithinLimit(Cause cause) const;
  // Whether a compaction owns a zone.
  bool CompactionsOwn() const;
  std::uint32_t OpenEmpty(std::uint8_t lifetime);
  bool Writable(const ZoneSpace& zone) const;
  // An active zone of this lifetime that a new writer can have.
  std::optional<std::uint32_t> Inherited(std::uint8_t lifetime) const;
  // kUnowned: without an owner and without writes in flight. kIdle: without writes in flight.
  enum class Of : std::uint8_t { kUnowned, kIdle, kAny };
  // An active zone that no shared cause fills and that is not in `spared`. Prefers the nearest
  // lifetime, if one is given, then the fullest zone.
  std::optional<std::uint32_t> NearestActive(std::optional<std::uint8_t> lifetime, Of of,
                                             const std::vector<bool>& spared = {}) const;
  // Decides between waiting and no space when no zone is available. `space`: an empty zone is.
  Decision WaitOrNoSpace(bool space) const;
  void FillIfFull(std::uint32_t zone);
  void MakeFull(ZoneSpace* zone);
  // The zone is no longer active on the device.
  void EndActive(ZoneSpace* zone);
  void Detach(ZoneSpace* zone);

  const Policy policy_;
  const std::uint32_t block_size_;
  const std::uint32_t active_budget_;
  const bool skip_released_;
  std::vector<ZoneSpace> zones_;
  std::unordered_map<std::uint64_t, Writer> writers_;  // data writers that have not left
  std::map<Cause, std::uint32_t> current_;             // the zone that each shared cause fills
  std::uint32_t empty_ = 0;
  std::uint32_t resetting_ = 0;
  bool refused_ = false;         // Refused was called, and no active zone has ended since
  std::uint32_t spare_ = 0;      // empty zones that only new data must leave
  std::uint32_t gc_start_ = 0;   // empty zones below which collecting starts
  std::uint64_t capacity_ = 1;   // of the smallest zone
  std::uint64_t log_bytes_ = 0;  // content of WALs
  std::uint32_t log_zones_ = 0;  // zones that WALs began to fill since the mount
  std::uint32_t cursor_ = 0;     // empty zones are taken in turn for even wear
  std::uint64_t clock_ = 0;
};

}  // namespace zlfs
