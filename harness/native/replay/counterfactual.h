// Replays mounts at a chosen setting. Writes, deletions and syncs keep their recorded order.
// Placement, finishes, resets and garbage collection are decided again. Fixed rules replace the
// effects of threads and readers (docs/replay.md).

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "replay/model.h"

namespace zlfs::replay {

// The first request that found no space at a setting.
struct Infeasible {
  std::uint64_t event = 0;    // index in the mount's events
  std::uint64_t written = 0;  // bytes since the mount
  std::string cause;          // cause of the request, named as in the ledger, or other text
  std::uint64_t asked = 0;    // bytes
  SpaceUse space;
};

class CounterfactualPlayer {
 public:
  explicit CounterfactualPlayer(Model* model) : model_(model) {}

  // Replays one mount. Replay all mounts in their order; every setting must have the same zones.
  std::optional<Infeasible> Play(const Mount& mount, const Setting& setting);

 private:
  // The writer of one file.
  struct Writer {
    AskEvent ask;
    std::uint64_t left = 0;           // bytes of content without a grant
    std::uint64_t recorded_left = 0;  // bytes that the recorded writer requests again
    std::optional<Decision> grant;    // the write in progress
    bool blocked = false;
    bool starved = false;         // blocked, and no space can be collected
    std::deque<StepEvent> steps;  // steps and asks postponed while the writer is blocked
    std::deque<AskEvent> asks;
    std::deque<bool> is_ask;  // the order of `steps` and `asks`
  };

  void Begin(const Mount& mount);
  void LayOut(const FileEvent& file);
  void Take(const AskEvent& ask);
  void Take(const StepEvent& event);
  void Of(const StepEvent& event);  // a step of a file
  void Try(Writer* writer);
  void Complete(Writer* writer);
  void WriteAll(Writer* writer);
  bool Settle();
  void Wake();
  void Reclaim(bool hard, std::uint64_t entries);
  // Frees everything that no file needs, and resets empty zones. Returns whether there were any.
  bool Commit(bool hard);
  // `hard`: active zones too. `logs`: log zones whose end is not committed, too.
  bool ResetZones(bool hard, bool logs);
  void Pay(std::uint64_t written);
  bool Collect(std::uint64_t bytes);
  bool Copy(std::size_t run);
  bool MakeRoom();
  void Fail(const Writer& writer);

  Model* const model_;
  Setting setting_;
  bool begun_ = false;
  std::map<std::uint64_t, Writer> writers_;
  std::deque<std::uint64_t> recorded_freed_;  // files in recorded order; 0: moved by the collector
  std::set<std::uint64_t> recorded_starved_;  // files whose last recorded request found no space
  std::uint64_t postponed_ = 0;               // entries of recorded_freed_ for the next sync
  std::set<std::uint32_t> log_zones_;
  std::set<std::uint32_t> ending_;  // log zones whose end is committed
  std::size_t next_run_ = 0;
  bool collecting_ = false;
  bool changed_ = false;       // a blocked writer may proceed
  bool returned_ = false;      // space was freed, or a writer left its zone
  bool some_blocked_ = false;  // a writer may be blocked; false: none is
  std::uint64_t event_ = 0;
  std::uint64_t laid_out_ = 0;  // allocator's clock at the mount's first event
  std::optional<Infeasible> infeasible_;
};

}  // namespace zlfs::replay
