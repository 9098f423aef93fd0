// A volume without bytes and without a device: zlfs's own allocator, the extents of its files, and
// the counts that its ledger would show.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replay/trace.h"
#include "zlfs/alloc/allocator.h"
#include "zlfs/fs/ledger.h"
#include "zlfs/meta/namespace.h"

namespace zlfs::replay {

struct Setting {
  Policy policy;
  std::uint64_t block_size = 0;
  std::uint64_t zone_capacity = 0;
  std::uint32_t zones = 0;  // the metadata log's, too
  std::uint32_t active_budget = 0;
};
// Of the first mount. Zones are alike.
Setting SettingOf(const Mount& mount);

struct Sample {
  std::uint64_t written = 0;  // bytes since the mount
  SpaceUse space;
};

class Model {
 public:
  // What was freed and is garbage once a record of it is durable.
  struct Freed {
    std::uint64_t file = 0;  // 0: the collector moved it
    std::vector<Extent> extents;
  };

  // Begins a mount: files stay where they are, all else is forgotten. `zones`: capacity, written
  // and use.
  void Begin(const Setting& setting, std::vector<ZoneSpace> zones);

  Allocator& allocator() { return *allocator_; }
  const Allocator& allocator() const { return *allocator_; }
  Files& files() { return files_; }
  std::deque<Freed>& freed() { return freed_; }
  std::vector<Run>& runs() { return runs_; }

  // Asks the allocator for room for the last `content` bytes of what `ask` was about.
  Decision Ask(const AskEvent& ask, std::uint64_t content);
  // The grant is written: to the file, or as the run's copy. How much content it took.
  std::uint64_t Write(const AskEvent& ask, const Decision& grant, std::uint64_t content);
  void Finish(std::uint32_t zone, FinishCause cause);
  void Reset(std::uint32_t zone);  // done; begun by the caller
  void Delete(std::uint64_t file);
  void Gone(std::uint64_t file);
  void Free(const Freed& freed);
  bool ChooseVictim();
  // The victim's files are in their new places. Whether that leaves garbage.
  bool Move();
  void Abandon();
  std::optional<std::uint32_t> victim() const { return victim_; }

  const Totals& totals() const { return totals_; }
  std::uint64_t collected_zones() const { return collected_zones_; }
  const std::vector<Retirement>& retired() const { return retired_; }
  const std::vector<Sample>& samples() const { return samples_; }
  const std::vector<std::uint64_t>& wear() const { return wear_; }  // resets of zones, all mounts
  void ForgetCounts();

 private:
  std::uint64_t block_size_ = 0;
  std::unique_ptr<Allocator> allocator_;
  Files files_;
  std::deque<Freed> freed_;
  std::optional<std::uint32_t> victim_;
  std::vector<Run> runs_;
  Totals totals_;
  std::uint64_t collected_zones_ = 0;
  std::vector<Retirement> retired_;
  std::vector<Sample> samples_;
  std::vector<std::uint64_t> wear_;
};

}  // namespace zlfs::replay
