// A namespace of a modelled drive as the kernel uses it: requests arrive, and end at the model's
// time with a result. It has no clock. It moves no data itself, but returns which data to move.

#pragma once

#include <linux/blkzoned.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/drive.h"
#include "model/events.h"
#include "model/parameters.h"
#include "zoneblk/pace.h"

namespace zoneblk {

enum class Op : std::uint8_t {
  kRead,
  kWrite,
  kAppend,
  kFlush,
  kDiscard,
  kReport,
  kOpen,
  kClose,
  kFinish,
  kReset,
  kResetAll
};
constexpr std::array<std::string_view, 11> kOpNames = {"read",    "write",  "append",   "flush",
                                                       "discard", "report", "open",     "close",
                                                       "finish",  "reset",  "reset_all"};

struct Request {
  Op op;
  Bytes offset;
  Bytes bytes;
};

// Data to move when a request arrives. In a read, `zeros` zero bytes follow the `bytes`.
struct Move {
  enum class Way : std::uint8_t { kNone, kToContents, kFromContents, kDiscard };
  Way way = Way::kNone;
  Bytes offset = 0;  // in the contents
  Bytes bytes = 0;
  Bytes zeros = 0;
};

struct Done {
  std::uint32_t tag;
  Op op;
  int error;     // 0 or an errno
  Bytes bytes;   // of the request
  Bytes offset;  // of the data, also of an append
  Time arrival;
  Time due;
};

struct Count {
  std::uint64_t commands = 0;  // without error
  Bytes bytes = 0;
  std::uint64_t errors = 0;
};

class Disk {
 public:
  // Uses the zoned or the conventional namespace, which the parameters must have. Tags are below
  // `depth`. Throws BadInput if the kernel does not support zones of this size, or if there are
  // more zones than tags.
  Disk(const zonemodel::Parameters& parameters, bool zoned, std::uint32_t depth,
       std::uint64_t seed);

  // Returns whether the namespace has such requests.
  [[nodiscard]] bool Supports(Op op) const;
  // Submits a supported request. `now` must not decrease from call to call. `tag` is in use until
  // Advance returns it.
  Move Submit(Time now, std::uint32_t tag, const Request& request);
  // Appends the requests that are done by `now`, in order.
  void Advance(Time now, std::vector<Done>* done);
  // Returns when to call Advance next: no request is done earlier. Returns kNever if none is under
  // way.
  [[nodiscard]] Time Next() const;

  // Returns at most `count` zones, from the zone at `offset` on.
  [[nodiscard]] std::vector<blk_zone> Report(Bytes offset, std::size_t count) const;

  [[nodiscard]] bool zoned() const { return zoned_; }
  [[nodiscard]] Bytes size() const;
  [[nodiscard]] Bytes capacity() const;  // of all zones
  [[nodiscard]] const zonemodel::Parameters& parameters() const { return parameters_; }
  [[nodiscard]] const zonemodel::Media& media() const { return drive_.media(); }
  [[nodiscard]] const Count& count(Op op) const { return counts_.at(static_cast<std::size_t>(op)); }

 private:
  struct UnderWay {
    Request request{};
    Time arrival = 0;
    std::uint32_t parts = 0;  // resets of a reset of all zones; 1 otherwise
    bool refused = false;
  };

  void Run(Time now);
  void Send(Time now, std::uint32_t tag, zonemodel::Operation operation, Bytes offset, Bytes bytes);
  Move Read(Time now, std::uint32_t tag, const Request& request);
  Move Write(Time now, std::uint32_t tag, const Request& request);
  void ResetAll(Time now, std::uint32_t tag);
  void Finished(Time due, std::uint32_t tag);
  bool Claim(const Request& request);
  void Release(const Request& request);
  std::uint32_t* UsersOf(const Request& request);
  [[nodiscard]] bool Outside(const Request& request) const;

  const zonemodel::Parameters parameters_;
  const bool zoned_;
  const std::uint32_t depth_;
  zonemodel::EventQueue events_;
  zonemodel::Drive drive_;
  std::vector<UnderWay> under_way_;            // by tag
  std::vector<std::uint32_t> resets_all_;      // by zone: tag of the request to reset all zones
  std::vector<std::uint32_t> users_;           // by zone: writes under way, or kManaged
  std::vector<Done> done_;                     // not fetched yet
  std::array<Count, kOpNames.size()> counts_;  // by Op
  std::uint32_t running_ = 0;
};

}  // namespace zoneblk
