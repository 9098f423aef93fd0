// Appends to files and makes them durable.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "zlfs/fs/collector.h"
#include "zlfs/fs/file_table.h"
#include "zlfs/fs/log_zones.h"
#include "zlfs/fs/patience.h"
#include "zlfs/fs/reclaimer.h"
#include "zlfs/fs/volume_state.h"
#include "zlfs/fs/zone_commands.h"

namespace zlfs {

// Only one thread at a time may append to a file. Syncs and reads may run concurrently.
class FileWriter {
 public:
  FileWriter(VolumeState* state, ZoneCommands* commands, LogZones* log_zones, Reclaimer* reclaimer,
             FileTable* table, Collector* collector, const SavedTails* tails,
             std::shared_ptr<Patience> patience)
      : state_(state),
        commands_(commands),
        log_zones_(log_zones),
        reclaimer_(reclaimer),
        table_(table),
        collector_(collector),
        tails_(tails),
        patience_(std::move(patience)) {}

  void SetPlacement(File* file, const Placement& placement);
  IOStatus Append(File* file, Slice data);
  // Makes all appended data of a WAL survive the end of the process: saves it in the auxiliary
  // directory, or writes it to the device.
  IOStatus SaveBuffer(File* file);
  // Writes all appended data to the device, but does not make it durable.
  IOStatus WriteBuffer(File* file);
  // Makes all appended data durable.
  IOStatus Sync(File* file);
  // Ends writing: writes the buffer, but does not make it durable. `finish_zone` finishes the
  // writer's zone even if it has room left. Does not wait for the finish.
  IOStatus FinishWriting(File* file, bool finish_zone = false);
  // Writes the buffers of all WALs with a lower id. The caller may hold the tail_mutex of a later
  // WAL.
  IOStatus WriteLogsBefore(std::uint64_t id);

 private:
  // Writes the buffer. An error is permanent for the file and discards the unwritten bytes: bytes
  // whose sync failed must not become durable later. Requires tail_mutex.
  IOStatus WriteTail(File* file);
  // The same, but keeps the unwritten bytes after an error. After a failed write, continues in
  // another zone. Several failures in a row are an error. Requires tail_mutex.
  IOStatus WriteOut(File* file);
  // Returns whether the tail was saved. Requires tail_mutex.
  bool SaveTail(File* log);
  // Makes the metadata log durable up to `position`. Recovery reads only log zones that the log
  // names, and keeps only pieces of files that it names. `begin`: start of the caller's operation,
  // for the trace.
  IOStatus CommitNames(const File& log, std::uint64_t position, std::uint64_t begin);
  // Notes that the WAL has this size: the allocator reserves zones for its flush. Requires the
  // state mutex.
  void ReserveFor(File* log, std::uint64_t size);
  // Writes the buffer and records the extents. Sets `position` to the log position that has to
  // become durable for the file.
  IOStatus WriteAndRecord(File* file, bool sync, std::uint64_t* position);
  // Reserves room for up to `size` bytes.
  IOStatus Reserve(File* file, std::uint64_t size, Decision* grant);
  // Waits until state_->returns differs from `returns`. Returns false if no space is likely to
  // return.
  bool SpaceReturns(Cause cause, std::uint64_t returns);
  // Waits until state_->returns changes, or until the patience ends.
  void AwaitReturn();

  VolumeState* const state_;
  ZoneCommands* const commands_;
  LogZones* const log_zones_;
  Reclaimer* const reclaimer_;
  FileTable* const table_;
  Collector* const collector_;
  const SavedTails* const tails_;
  const std::shared_ptr<Patience> patience_;
  std::atomic<bool> low_space_ = false;  // as of the last allocation of any file
};

}  // namespace zlfs
