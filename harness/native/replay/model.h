// A volume without data or a device: zlfs's own allocator, the extents of its files, and the counts
// of its ledger.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replay/trace.h"
#include "zlfs/alloc/allocator.h"
#include "zlfs/format/superblock.h"
#include "zlfs/fs/ledger.h"
#include "zlfs/meta/namespace.h"

namespace zlfs::replay {

struct Setting {
  Policy policy;
  std::uint64_t block_size = 0;
  std::uint64_t zone_capacity = 0;
  std::uint32_t zones = 0;  // including the metadata log's
  std::uint32_t active_budget = 0;
  bool skip_released = true;                      // as in AllocatorSetup
  std::uint32_t metadata_zones = kMetadataZones;  // at the start
  std::uint32_t metadata_copies = 2;              // a commit writes all of them
};
// The setting of a recorded mount. All zones have the capacity of the first data zone.
Setting SettingOf(const Mount& mount);

class Model;

// Receives the events of a mount, and the commands that the model sends to the device.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void Started(const Model& model) = 0;  // the zones and files are in place
  virtual void Comes(const Model& model, const Event& event, const Stamp& stamp) = 0;
  virtual void Wrote(const AskEvent& ask, const Extent& blocks) = 0;
  virtual void CopyRead(const Extent& content) = 0;  // the collector reads what it writes next
  virtual void Finished(std::uint32_t zone) = 0;
  virtual void Reset(std::uint32_t zone) = 0;
  virtual void Flushed() = 0;
};

class Model {
 public:
  // Freed extents. They become garbage when their record is durable.
  struct Freed {
    std::uint64_t file = 0;  // 0: the collector moved it
    std::vector<Extent> extents;
  };

  explicit Model(Listener* listener = nullptr) : listener_(listener) {}

  // Begins a mount: keeps the files in place and drops all other state. Each zone needs its
  // capacity, written bytes and use.
  void Begin(const Setting& setting, std::vector<ZoneSpace> zones);

  // The mount's files are in place. From here on the listener receives everything.
  void Start();
  // Passes the mount's next event to the listener.
  void Take(const Mount& mount, std::size_t event) const;

  std::uint64_t block_size() const { return block_size_; }
  std::uint32_t metadata_copies() const { return metadata_copies_; }
  Allocator& allocator() { return *allocator_; }
  const Allocator& allocator() const { return *allocator_; }
  Files& files() { return files_; }
  const Files& files() const { return files_; }
  std::deque<Freed>& freed() { return freed_; }
  std::vector<Run>& runs() { return runs_; }

  // Asks the allocator for space for the last `content` bytes of the request.
  Decision Ask(const AskEvent& ask, std::uint64_t content);
  // Writes the grant to the file, or to the run's copy. Returns the bytes of content written.
  std::uint64_t Write(const AskEvent& ask, const Decision& grant, std::uint64_t content);
  void Finish(std::uint32_t zone, FinishCause cause);
  void Reset(std::uint32_t zone);  // completes a reset that the caller began
  void Delete(std::uint64_t file);
  void Gone(std::uint64_t file);
  void Free(const Freed& freed) { Free(freed.extents, true); }
  bool ChooseVictim();
  // Moves the victim's files to their copies. Returns whether this leaves garbage.
  bool Move();
  void Abandon();
  std::optional<std::uint32_t> victim() const { return victim_; }

  const Totals& totals() const { return totals_; }
  std::uint64_t collected_zones() const { return collected_zones_; }
  const std::vector<Retirement>& retired() const { return retired_; }
  const std::vector<std::uint64_t>& wear() const { return wear_; }  // resets by zone, all mounts

 private:
  void Tell(const AskEvent& ask, const Decision& grant, std::uint64_t content);
  void ForgetCounts();
  void Release(const std::vector<Extent>& extents);
  void Free(const std::vector<Extent>& extents, bool released);

  Listener* const listener_;
  bool heard_ = false;  // whether the listener receives events
  std::uint64_t block_size_ = 0;
  std::uint32_t metadata_copies_ = 1;
  std::unique_ptr<Allocator> allocator_;
  Files files_;
  std::deque<Freed> freed_;
  std::optional<std::uint32_t> victim_;
  std::vector<Run> runs_;
  Totals totals_;
  std::uint64_t collected_zones_ = 0;
  std::vector<Retirement> retired_;
  std::vector<std::uint64_t> wear_;
};

}  // namespace zlfs::replay
