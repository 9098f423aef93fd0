// Turns extents that no file needs into garbage, and garbage into empty zones.

#pragma once

#include <cstdint>
#include <vector>

#include "zlfs/fs/background.h"
#include "zlfs/fs/file_reader.h"
#include "zlfs/fs/log_zones.h"
#include "zlfs/fs/volume_state.h"
#include "zlfs/fs/zone_commands.h"

namespace zlfs {

class Reclaimer {
 public:
  Reclaimer(VolumeState* state, ZoneCommands* commands, LogZones* log_zones,
            const FileReader* reader);

  // Makes the log durable up to `position`, then begins to reset the zones that this frees.
  IOStatus Commit(std::uint64_t position);
  // Begins to reset zones without live data, and sets `*reset` to true if there are any. kCommit:
  // also commits the log as needed. kAll: as kCommit, also resets active zones, and returns when
  // all finishes and resets are done.
  IOStatus Reclaim(Reclaiming how, bool* reset = nullptr);
  // Runs or awaits all resets. Returns whether there were any.
  bool Drain() { return resets_.Drain(); }

  // Makes the extents garbage. `released`: they were given to FreeLater. Requires the state mutex.
  void Free(const std::vector<Extent>& extents, bool released = false);
  // Makes the extents garbage as soon as the log is durable. Requires the state mutex.
  void FreeLater(std::vector<Extent> extents);

 private:
  // Extents that become garbage when the log is durable up to `position`.
  struct Freed {
    std::uint64_t position = 0;
    std::vector<Extent> extents;
  };

  VolumeState* const state_;
  ZoneCommands* const commands_;
  LogZones* const log_zones_;
  const FileReader* const reader_;
  std::vector<Freed> freed_;  // by position; guarded by the state mutex
  Background resets_;
};

}  // namespace zlfs
