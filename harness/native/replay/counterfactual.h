// Replays mounts at a setting of one's own. What was written, deleted and synced, and in which
// order, is as it was recorded; where it goes, what is finished, reset and collected is decided
// anew. What depended on threads and readers follows rules instead (docs/replay.md).

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

// Why a setting cannot hold the data.
struct Infeasible {
  std::uint64_t event = 0;    // of the mount
  std::uint64_t written = 0;  // bytes since the mount
  std::string cause;          // who found no room, as the ledger names it
  std::uint64_t asked = 0;    // bytes
  SpaceUse space;
};

class CounterfactualPlayer {
 public:
  explicit CounterfactualPlayer(Model* model) : model_(model) {}

  // Mounts in their order, all with the same zones.
  std::optional<Infeasible> Play(const Mount& mount, const Setting& setting);

 private:
  // A file's writer.
  struct Writer {
    AskEvent ask;
    std::uint64_t left = 0;           // content that nothing was granted for yet
    std::uint64_t recorded_left = 0;  // content that the recorded writer asks for once more
    std::optional<Decision> grant;    // being written
    bool blocked = false;
    bool starved = false;         // blocked, and nothing can be collected
    std::deque<StepEvent> steps;  // what it does once it is not blocked any more …
    std::deque<AskEvent> asks;
    std::deque<bool> is_ask;  // … in this order
  };

  void Begin(const Mount& mount);
  void LayOut(const FileEvent& file);
  void Take(const AskEvent& ask);
  void Take(const StepEvent& event);
  void Of(const StepEvent& event);  // of a file
  void Try(Writer* writer);
  void Complete(Writer* writer);
  void WriteAll(Writer* writer);
  bool Settle();
  void Wake();
  void Reclaim(bool hard, std::uint64_t entries);
  bool ResetZones(bool hard);
  void Pay(std::uint64_t written);
  bool Collect(std::uint64_t bytes);
  bool Copy(std::size_t run);
  bool MakeRoom();
  void Fail(const Writer& writer);

  Model* const model_;
  Setting setting_;
  bool begun_ = false;
  std::map<std::uint64_t, Writer> writers_;
  std::deque<std::uint64_t> recorded_freed_;  // files as they went, 0: moved by the collector
  std::set<std::uint32_t> log_zones_;
  std::set<std::uint32_t> ending_;  // log zones whose end would be in the metadata log
  std::size_t next_run_ = 0;
  bool collecting_ = false;
  bool changed_ = false;   // somebody wrote, left or was given something
  bool returned_ = false;  // somebody left, or space came back
  std::uint64_t event_ = 0;
  std::optional<Infeasible> infeasible_;
};

}  // namespace zlfs::replay
