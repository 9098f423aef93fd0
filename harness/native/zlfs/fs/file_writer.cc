#include "zlfs/fs/file_writer.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace zlfs {
namespace {

// A file fails after failed writes in this many zones in a row. A single error does not show
// whether one zone or the whole device failed.
constexpr int kWriteAttempts = 4;
// A file fails after this many refusals in a row (IsRefusal). Before all but the first two
// attempts, the writer waits.
constexpr int kRefusedAttempts = 12;
// A tail of more than this share of a zone is not saved in the auxiliary directory. The zones that
// are kept for the opening of a database must have room for all saved tails.
constexpr std::uint64_t kSavedShare = 16;

}  // namespace

void FileWriter::SetPlacement(File* file, const Placement& placement) {
  const std::lock_guard tail(file->tail_mutex);
  const std::lock_guard lock(state_->mutex);
  file->placement = placement;
  file->lifetime = placement.lifetime;
}

IOStatus FileWriter::Append(File* file, Slice data) {
  const std::lock_guard tail(file->tail_mutex);
  if (!file->failed.ok()) return file->failed;
  const std::size_t head = file->tail_head();
  while (!data.empty()) {
    if (file->tail == nullptr) file->tail = AllocateAligned(kTailBytes);
    const std::size_t n = std::min(data.size(), kTailBytes - head - file->tail_size);
    std::memcpy(file->tail.get() + head + file->tail_size, data.data(), n);
    file->tail_size += n;
    data.remove_prefix(n);
    if (head + file->tail_size < kTailBytes) break;
    RETURN_IF_ERROR(WriteTail(file));
  }
  return IOStatus::OK();
}

IOStatus FileWriter::WriteTail(File* file) {
  if (file->failed.ok()) {
    file->failed = WriteOut(file);
    if (file->failed.IsIOError()) file->failed.SetRetryable(true);  // other files can be written
  }
  if (!file->failed.ok()) file->tail_size = 0;
  return file->failed;
}

IOStatus FileWriter::WriteOut(File* file) {
  const File* const log = file->kind == FileKind::kLog ? file : nullptr;
  // RocksDB begins a WAL without a sync of the one before, and its recovery does not notice a gap
  // between them. So the earlier WALs become durable first.
  if (log != nullptr && log->size == 0 && log->tail_size > 0) {
    RETURN_IF_ERROR(WriteLogsBefore(log->id));
    RETURN_IF_ERROR(state_->io.Flush());
  }
  const std::size_t head = file->tail_head();
  const ZoneCommands::Written written = [this, file](const Extent& extent) {
    Join(&file->extents, extent);
    file->size += extent.length;
    if (file->kind == FileKind::kLog) {
      file->recorded = file->size;
      ReserveFor(file, file->size);
    }
    file->ForgetMap();
  };
  int failures = 0;
  for (int refusals = 0; file->tail_size > 0;) {
    char* const buffer = file->tail.get();
    const std::size_t used = head + file->tail_size;
    const std::size_t size = RoundUp(used, state_->io.geometry().block_size);
    std::memset(buffer + used, 0, size - used);
    Decision grant;
    RETURN_IF_ERROR(Reserve(file, size, &grant));
    const std::size_t content = std::min<std::size_t>(file->tail_size, grant.size - head);
    const IOStatus status =
        commands_->Write(grant, file->placement.cause, file->id, buffer, content, log, written);
    if (status.IsAborted()) continue;
    if (IsRefusal(status)) {
      if (++refusals == kRefusedAttempts) return status;
      if (refusals > 1) AwaitReturn();
      continue;
    }
    if (!status.ok() && ++failures == kWriteAttempts) return status;
    if (!status.ok()) continue;
    failures = refusals = 0;
    // If the zone had less room, the rest goes to another zone.
    file->tail_size -= content;
    std::memmove(buffer + head, buffer + head + content, file->tail_size);
    if (low_space_.load(std::memory_order_relaxed)) collector_->Pay(grant.size);
  }
  return IOStatus::OK();
}

IOStatus FileWriter::WriteLogsBefore(std::uint64_t id) {
  for (const auto& log : table_->LogsBefore(id)) {
    const std::lock_guard tail(log->tail_mutex);
    if (log->tail_size > 0) RETURN_IF_ERROR(WriteOut(log.get()));
  }
  return IOStatus::OK();
}

void FileWriter::ReserveFor(File* log, std::uint64_t size) {
  if (log->deleted || size <= log->reserved_for) return;
  state_->allocator->LogsGrew(size - log->reserved_for);
  log->reserved_for = size;
}

IOStatus FileWriter::Reserve(File* file, std::uint64_t size, Decision* grant) {
  const Request request{.placement = file->placement, .writer = file->id, .size = size};
  const Cause cause = request.placement.cause;
  for (;;) {
    std::unique_lock lock(state_->mutex);
    *grant = commands_->Allocate(&lock, request, file->id, file->kind, file->tail_size);
    low_space_.store(state_->allocator->LowSpace(), std::memory_order_relaxed);
    if (grant->kind == Decision::Kind::kGrant) {
      if (cause == Cause::kWal) log_zones_->Join(file, grant->zone);
      return IOStatus::OK();
    }
    const std::uint64_t returns = state_->returns;
    lock.unlock();
    if (grant->kind == Decision::Kind::kFinish) {
      commands_->Finish(grant->zone, FinishCause::kActiveLimit);
      continue;
    }
    const IOStatus status = collector_->MakeRoom();
    if (status.ok()) continue;
    if (!status.IsNoSpace() || !SpaceReturns(cause, returns)) return status;
  }
}

bool FileWriter::SpaceReturns(Cause cause, std::uint64_t returns) {
  std::unique_lock lock(state_->mutex);
  const auto returned = [this, returns] { return state_->returns != returns; };
  for (bool hope = true; hope && !returned();) {
    const std::uint64_t before = state_->allocator->clock();
    patience_->Wait(&lock, &state_->changed, returned);
    hope =
        state_->allocator->clock() != before || (IsShared(cause) && state_->allocator->JobsWrite());
  }
  return returned();
}

void FileWriter::AwaitReturn() {
  std::unique_lock lock(state_->mutex);
  const auto returned = [this, returns = state_->returns] { return state_->returns != returns; };
  patience_->Wait(&lock, &state_->changed, returned);
}

IOStatus FileWriter::WriteAndRecord(File* file, bool sync, std::uint64_t* position) {
  const std::lock_guard tail(file->tail_mutex);
  file->synced = sync;
  RETURN_IF_ERROR(WriteTail(file));
  const std::lock_guard lock(state_->mutex);
  table_->RecordFrom(file, file->recorded);
  *position = file->position;
  return IOStatus::OK();
}

IOStatus FileWriter::SaveBuffer(File* file) {
  {
    const std::lock_guard tail(file->tail_mutex);
    if (!file->failed.ok()) return file->failed;
    // After a sync since the last save, the next sync probably follows soon. So do not save first.
    if (!std::exchange(file->synced, false) && SaveTail(file)) return IOStatus::OK();
  }
  return WriteBuffer(file);
}

bool FileWriter::SaveTail(File* log) {
  if (log->tail_size > state_->io.geometry().zone_size / kSavedShare) return false;
  if (log->saved == nullptr) log->saved = tails_->New(log->id);
  if (log->saved == nullptr) return false;
  const std::uint64_t begin = AllocationTrace::Now();
  // The new tail overwrites a saved one whose content is in zones now. Before that, the metadata
  // log must name these zones and the file: otherwise recovery would not find the content.
  const auto [position, start] = [this, log] {
    const std::lock_guard lock(state_->mutex);
    return std::pair(log->position, log->size);
  }();
  if (!CommitNames(*log, position, begin).ok()) return false;
  if (log->tail_size == 0) return true;
  return log->saved->Save(start, {log->tail.get() + log->tail_head(), log->tail_size}).ok();
}

IOStatus FileWriter::WriteBuffer(File* file) {
  const std::uint64_t begin = AllocationTrace::Now();
  std::uint64_t position = 0;
  RETURN_IF_ERROR(WriteAndRecord(file, false, &position));
  return CommitNames(*file, position, begin);
}

IOStatus FileWriter::CommitNames(const File& log, std::uint64_t position, std::uint64_t begin) {
  if (position <= state_->log->durable()) return IOStatus::OK();
  const IOStatus status = state_->log->Commit(position);
  state_->trace.AddSync(log.id, true, begin);
  return status;
}

IOStatus FileWriter::Sync(File* file) {
  const std::uint64_t begin = AllocationTrace::Now();
  std::uint64_t position = 0;
  RETURN_IF_ERROR(WriteAndRecord(file, true, &position));
  // Users wait for syncs of a WAL, so these reset no zones. The next sync of another file, or a
  // writer without space, resets them.
  const bool writes = position > state_->log->durable();
  const IOStatus status =
      file->kind == FileKind::kLog ? state_->log->Commit(position) : reclaimer_->Commit(position);
  state_->trace.AddSync(file->id, writes, begin);
  return status;
}

IOStatus FileWriter::FinishWriting(File* file, bool finish_zone) {
  const std::uint64_t begin = AllocationTrace::Now();
  std::unique_lock tail(file->tail_mutex);
  const IOStatus status = WriteTail(file);
  file->tail.reset();
  const std::unique_ptr<SavedTail> saved = std::move(file->saved);
  std::unique_lock lock(state_->mutex);
  table_->RecordFrom(file, file->recorded);
  const std::optional<std::uint32_t> to_finish = state_->allocator->Leave(file->id, finish_zone);
  state_->trace.Add(Step::kLeft, file->id, finish_zone);
  ++state_->returns;
  const std::uint64_t position = file->position;
  lock.unlock();
  tail.unlock();
  state_->changed.notify_all();
  if (to_finish) {
    commands_->FinishLater(*to_finish,
                           finish_zone ? FinishCause::kImport : FinishCause::kThreshold);
  }
  if (saved == nullptr || !status.ok()) return status;
  if (CommitNames(*file, position, begin).ok()) saved->Remove();
  return status;
}

}  // namespace zlfs
