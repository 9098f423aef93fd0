// Replays a mount at its recorded setting. The allocator gets the recorded requests in their order
// and must repeat every recorded decision.

#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "replay/model.h"

namespace zlfs::replay {

class RecordedPlayer {
 public:
  explicit RecordedPlayer(Model* model) : model_(model) {}

  // Errors: "diverged", with the number of the event.
  IOStatus Play(const Mount& mount);
  // The space in use. After a remount, zlfs' ledger counts capacity that earlier mounts gave up as
  // garbage, because the device reports finished zones as written. Here it stays given up.
  SpaceUse space() const;

 private:
  struct Pending {
    AskEvent ask;
    Decision grant;
  };

  void Begin(const Mount& mount);
  void Keep(const Mount& next);
  bool Take(const AskEvent& ask);
  bool Take(const StepEvent& event);
  bool Take(const MountEvent&) { return false; }
  bool Take(const ZoneEvent&) { return false; }
  bool Take(const FileEvent&) { return false; }
  bool Take(const CloseEvent&) { return false; }
  bool Take(const SyncEvent&) { return true; }
  bool Take(const ReadEvent&) { return true; }

  Model* const model_;
  bool begun_ = false;
  std::map<std::pair<bool, std::uint64_t>, Pending> pending_;  // by (a copy?, subject)
  std::map<std::uint32_t, FinishCause> finishing_;
  std::map<std::uint32_t, std::uint64_t>
      given_up_;      // by zone: bytes, in finishes of earlier mounts
  bool hard_ = true;  // whether the last reclaim was a hard one
};

}  // namespace zlfs::replay
