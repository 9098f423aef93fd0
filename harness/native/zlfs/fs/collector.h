// Collects garbage: copies live content out of zones that are mostly garbage, in bounded steps.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "zlfs/fs/file_reader.h"
#include "zlfs/fs/file_table.h"
#include "zlfs/fs/reclaimer.h"
#include "zlfs/fs/volume_state.h"
#include "zlfs/fs/zone_commands.h"

namespace zlfs {

class Collector {
 public:
  Collector(VolumeState* state, ZoneCommands* commands, Reclaimer* reclaimer, FileReader* reader,
            FileTable* table)
      : state_(state), commands_(commands), reclaimer_(reclaimer), reader_(reader), table_(table) {}

  // Copies content of the victim in proportion to `written` bytes (PriceOf). Writers call it while
  // space is low. Does nothing if another thread collects.
  void Pay(std::uint64_t written);
  // Frees at least one zone or returns NoSpace. A writer calls it when no zone is available.
  IOStatus MakeRoom();

  std::uint64_t collected_zones() const { return collected_zones_; }
  std::chrono::nanoseconds time() const { return time_; }

 private:
  // These require collecting_.
  // Commits deletions and moves, and begins to reset the zones that this frees. Returns whether
  // space is still low. A commit writes a block per copy of the log; a victim costs up to a zone.
  // Without the commit, WALs would pay for victims that nothing resets: the sync of a WAL commits
  // neither deletions nor moves.
  bool LowAfterReclaim();
  bool ChooseVictim();
  IOStatus Collect(std::uint64_t bytes);  // adds its duration to time_
  IOStatus CopyRuns(std::uint64_t bytes);
  IOStatus CopyRun(Run* run);
  IOStatus MoveRuns();

  VolumeState* const state_;
  ZoneCommands* const commands_;
  Reclaimer* const reclaimer_;
  FileReader* const reader_;
  FileTable* const table_;
  std::atomic<std::uint64_t> collected_zones_ = 0;
  std::atomic<std::chrono::nanoseconds> time_ = std::chrono::nanoseconds(0);

  std::mutex collecting_;  // held while a thread collects or makes room; guards the members below
  std::optional<std::uint32_t> victim_;
  std::vector<Run> runs_;     // live content of the victim
  std::size_t next_run_ = 0;  // first run that is not copied yet
  AlignedBuffer run_buffer_;
};

}  // namespace zlfs
