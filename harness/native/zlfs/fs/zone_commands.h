// Writes, finishes and resets zones, and reports the results to the allocator.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "zlfs/fs/background.h"
#include "zlfs/fs/ledger.h"
#include "zlfs/fs/log_zones.h"
#include "zlfs/fs/volume_state.h"

namespace zlfs {

// Whether the device refused a write because too many zones are active or open. The zone did not
// fail: another user of the device has a part of its limits.
bool IsRefusal(const IOStatus& status);

class ZoneCommands {
 public:
  ZoneCommands(VolumeState* state, LogZones* log_zones)
      : state_(state),
        log_zones_(log_zones),
        locks_(state->device->geometry().zone_count),
        finishes_(state->device->geometry().waits) {}

  // Numbers the next pieces after the last one that recovery found.
  void BeginPieces(std::uint64_t last_piece) { piece_number_ = last_piece; }

  // Returns the allocator's decision. Waits while it is kWait, and while the request awaits a
  // finish (Allocator::AwaitsFinish). `subject` is the file id, or the run index during garbage
  // collection. `lock` holds the state mutex.
  Decision Allocate(std::unique_lock<std::mutex>* lock, const Request& request,
                    std::uint64_t subject, FileKind kind, std::uint64_t content);

  // Writes the buffer to the granted zone, then calls `written` with the state mutex held. The
  // buffer of a log file starts with space for a piece header. After an error that is no refusal,
  // the zone takes no more writes. The status Aborted means that an earlier write to the zone
  // failed, so nothing was written.
  using Written = std::function<void(const Extent& extent)>;
  IOStatus Write(const Decision& grant, Cause cause, std::uint64_t subject, char* buffer,
                 std::size_t content, const File* log, const Written& written);
  // A failed finish costs only the zone's room, so the caller gets no error.
  void Finish(std::uint32_t zone, FinishCause cause);
  // As Finish, in the background. The zone stays kFinishing, and active, until the device is done.
  void FinishLater(std::uint32_t zone, FinishCause cause);
  // Runs or awaits all finishes in the background.
  void AwaitFinishes() { finishes_.Drain(); }
  // After a failed reset, the zone is not used before the next mount.
  void Reset(std::uint32_t zone);

  // Returns the zones that were finished or reset since the last call. Requires the state mutex.
  std::vector<Retirement> TakeRetired();

 private:
  struct ZoneLock {
    // Held during each write, finish and reset, so that only one thread moves the write pointer.
    // `written` and `broken` of the allocator's zone change only with this lock and the state mutex
    // held, so that either lock suffices to read them.
    std::mutex mutex;
    std::uint64_t last_piece = 0;  // header checksum of the last piece; guarded by mutex
  };

  // After a failed command: learns the state of the zone from the device, and finishes the zone if
  // it is still active. Requires the zone's lock.
  void Settle(std::uint32_t zone);

  VolumeState* const state_;
  LogZones* const log_zones_;
  std::vector<ZoneLock> locks_;
  std::atomic<std::uint64_t> piece_number_ = 0;
  std::vector<Retirement> retired_;  // guarded by the state mutex
  Background finishes_;
};

}  // namespace zlfs
