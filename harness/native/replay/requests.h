// The requests of a mount's threads to the device at a setting: the player's writes, finishes and
// resets, and the recorded syncs and reads. Each has the thinking time before it.

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "replay/model.h"

namespace zlfs::replay {

struct DeviceRequest {
  enum class Kind : std::uint8_t {
    kWrite,
    kRead,
    kFinish,
    kReset,
    kCommit,  // writes a block to the metadata log
    kFlush,
    kSynced  // no command: the sync that began at `begins_sync` ends
  };
  Kind kind;
  std::uint8_t cause = 0;    // of kWrite and kSynced
  bool begins_sync = false;  // the first request of a sync
  std::uint32_t zone = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t each = 0;  // kRead: bytes of each of its reads
  // A zone takes its commands in the order of the decisions, even if the threads' times differ.
  std::uint32_t before = 0;        // kWrite, kRead, kFinish, kReset: earlier commands of the zone
  std::uint32_t reads_before = 0;  // kReset: earlier reads of the zone
  std::uint64_t thinks = 0;        // thinking time in ns after the thread's last request
  std::uint64_t at = 0;            // recorded time, to find the first request of a sync
};

// Collects the requests of one mount.
class Requests final : public Listener {
 public:
  void Started(const Model& model) override;
  void Comes(const Model& model, const Event& event, const Stamp& stamp) override;
  void Wrote(const AskEvent& ask, const Extent& blocks) override;
  void CopyRead(const Extent& content) override;
  void Finished(std::uint32_t zone) override;
  void Reset(std::uint32_t zone) override;
  void Flushed() override;

  // The requests of each thread, in order.
  const std::vector<std::vector<DeviceRequest>>& threads() const { return requests_; }
  const std::vector<ZoneSpace>& zones() const { return zones_; }  // at the mount
  std::uint64_t recorded() const { return recorded_; }            // ns

 private:
  struct Thread {
    std::uint64_t last = 0;    // time of its last event
    std::int64_t thinks = 0;   // ns since its last request
    bool waits = false;        // its last request for space had no grant
    std::size_t requests = 0;  // index in requests_
  };

  void Take(Thread* thread, const Event& event, std::uint64_t time);
  void TakeSync(Thread* thread, const SyncEvent& sync, std::uint64_t time);
  void TakeRead(const Model& model, const ReadEvent& read);
  void Add(Thread* thread, DeviceRequest request);
  void AddOrdered(Thread* thread, DeviceRequest request);
  void Read(const Extent& content, std::uint64_t each);
  Thread* ThreadOf(std::uint32_t number);

  std::vector<ZoneSpace> zones_;
  std::uint64_t block_ = 1;
  std::uint32_t metadata_copies_ = 1;
  std::vector<std::vector<DeviceRequest>> requests_;
  std::unordered_map<std::uint32_t, Thread> threads_;
  std::uint32_t current_ = 0;                                 // thread of the current event
  std::unordered_map<std::uint64_t, std::uint32_t> writers_;  // file: thread of its last request
  std::unordered_map<std::uint64_t, std::uint8_t> causes_;    // of files
  std::vector<std::uint32_t> ordered_, reads_;                // by zone
  std::uint64_t recorded_ = 0;
};

}  // namespace zlfs::replay
