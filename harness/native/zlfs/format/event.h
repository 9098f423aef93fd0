// Events of an allocation trace (docs/replay.md): the inputs and the results of the allocator's
// decisions, in order. Events are encoded like records.
//
// A trace is a file of sealed chunks of these events (format/sealed.h). In a chunk's header,
// subject and position are 0, `generation` is the version of the format, and numbers begin at 1 in
// each mount. A mount begins with MountEvent, its zones and files, and ends with CloseEvent. Since
// version 3 each event has a stamp.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "zlfs/format/record.h"

namespace zlfs {

inline constexpr std::uint32_t kTraceMagic = 0x4352545a;  // "ZTRC"
// Older versions:
// 1: victims also counted content that was released, but not durably (Allocator::Released).
// 2: no stamps, syncs and reads.
// 3: the collector did not commit deletions and moves before it chose a victim.
// 4: the metadata log had one copy.
inline constexpr std::uint64_t kTraceVersion = 5;

// Time and thread of an event. They follow the event: first twice the time since the event before,
// plus one if the thread differs from the thread before; in this case the thread follows.
struct Stamp {
  std::uint64_t time = 0;  // ns since the mount
  std::uint32_t thread = 0;
};

struct MountEvent {
  std::uint64_t block_size = 0;
  std::uint32_t active_budget = 0;  // active zones for data; 0: no limit
  std::string policy;               // bytes, as in the superblock

  static auto Fields(auto& r) { return std::tie(r.block_size, r.active_budget, r.policy); }
};

// State of one zone at mount. A trace lists all zones in order.
struct ZoneEvent {
  std::uint64_t capacity = 0;
  std::uint64_t written = 0;
  std::uint8_t use = 0;  // ZoneUse

  static auto Fields(auto& r) { return std::tie(r.capacity, r.written, r.use); }
};

// A file that existed when the device was mounted.
struct FileEvent {
  std::uint64_t file = 0;
  FileKind kind = FileKind::kData;
  std::uint8_t lifetime = 0;
  std::vector<Extent> extents;

  static auto Fields(auto& r) { return std::tie(r.file, r.kind, r.lifetime, r.extents); }
};

// A request for space and the allocator's decision.
struct AskEvent {
  std::uint64_t subject = 0;  // file id; for copies of the collector, the number of its run
  FileKind kind = FileKind::kData;
  std::uint8_t cause = 0;
  std::uint8_t job = 0;
  std::uint8_t lifetime = 0;
  std::uint64_t content = 0;
  std::uint8_t decision = 0;  // Decision::Kind
  std::uint32_t zone = 0;
  std::uint64_t size = 0;

  static auto Fields(auto& r) {
    return std::tie(r.subject, r.kind, r.cause, r.job, r.lifetime, r.content, r.decision, r.zone,
                    r.size);
  }
};

// Which garbage becomes empty zones. Traces store these numbers.
enum class Reclaiming : std::uint8_t {
  kDurable,  // garbage to which the durable log does not refer, in full zones
  kAll,      // as kCommit, and in active zones
  kCommit,   // commits the log as needed, in full zones
};

enum class Step : std::uint32_t {  // subject, detail
  kWrote,                          // as in AskEvent, cause: the granted space is written
  kLeft,                           // file, 1 to finish its zone in any case: its writer closed
  kFinished,                       // zone
  kDeleted,                        // file: it lost its last name
  kGone,                           // file, 1 if it held data: deleted and no longer open
  kReclaim,                        // steps kGone and kMoved whose data is garbage now, Reclaiming
  kReset,                          // zone: the reset begins
  kResetDone,                      // zone
  kVictim,                         // zone: chosen by the collector
  kMoved,                          // 1 if this leaves garbage: the victim's content is elsewhere
  kAbandoned,                      // the collector discarded its copies
  kTrouble,                        // zone: an event that cannot be replayed
};

struct StepEvent {
  std::uint32_t step = 0;
  std::uint64_t subject = 0;
  std::uint64_t detail = 0;

  static auto Fields(auto& r) { return std::tie(r.step, r.subject, r.detail); }
};

// A sync of a file or of names ended.
struct SyncEvent {
  std::uint64_t file = 0;  // 0: names
  std::uint8_t log = 0;    // 1 if the sync writes the metadata log
  std::uint64_t took = 0;  // ns, with the write of the file's buffer

  static auto Fields(auto& r) { return std::tie(r.file, r.log, r.took); }
};

// One or several reads of a thread; each begins where the one before ends. They ended before the
// event.
struct ReadEvent {
  std::uint64_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t requests = 0;
  std::uint64_t took = 0;  // ns, of all requests

  static auto Fields(auto& r) { return std::tie(r.file, r.offset, r.bytes, r.requests, r.took); }
};

struct CloseEvent {
  std::string ledger;  // the ledger's last line

  static auto Fields(auto& r) { return std::tie(r.ledger); }
};

// The index in this list is stored, as in `Record`: add new types at the end.
using Event = std::variant<MountEvent, ZoneEvent, FileEvent, AskEvent, StepEvent, CloseEvent,
                           SyncEvent, ReadEvent>;

void AppendEvent(const Event& event, std::string* to);
// `last` is the stamp of the event before, and becomes this one.
void AppendStamp(const Stamp& stamp, Stamp* last, std::string* to);
// Adds all events of a chunk, and their stamps if the chunk's version has them. `last` is the stamp
// before the chunk, and becomes the chunk's last one. Returns false if the chunk is malformed.
bool DecodeEvents(std::string_view body, std::uint64_t version, Stamp* last,
                  std::vector<Event>* events, std::vector<Stamp>* stamps);

}  // namespace zlfs
