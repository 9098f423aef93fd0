#include "zlfs/fs/file_writer.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

namespace zlfs {
namespace {

// Size of a writer's buffer: large enough to amortize the cost of device commands, small enough for
// hundreds of open files.
constexpr std::size_t kTailBytes = 1 << 20;

// Zones in which a write is tried before its file fails. Errors of a zone, of a namespace that
// comes back, and of a lost device differ in nothing else.
constexpr int kWriteAttempts = 4;

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
  // RocksDB begins a WAL without syncing the one before, and its recovery sees no gap between them.
  if (log != nullptr && log->size == 0 && log->tail_size > 0) RETURN_IF_ERROR(state_->io.Flush());
  const std::size_t head = file->tail_head();
  const ZoneCommands::Written written = [this, file](const Extent& extent) {
    Join(&file->extents, extent);
    file->size += extent.length;
    if (file->kind == FileKind::kLog) {
      file->recorded = file->size;
      if (!file->deleted) state_->allocator->LogsGrew(extent.length);
    }
    file->ForgetMap();
  };
  for (int failures = 0; file->tail_size > 0;) {
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
    if (!status.ok() && ++failures == kWriteAttempts) return status;
    if (!status.ok()) continue;
    failures = 0;
    // If the zone has less room, the rest goes to another zone.
    file->tail_size -= content;
    std::memmove(buffer + head, buffer + head + content, file->tail_size);
    if (low_space_.load(std::memory_order_relaxed)) collector_->Pay(grant.size);
  }
  return IOStatus::OK();
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

IOStatus FileWriter::WriteAndRecord(File* file, std::uint64_t* position) {
  const std::lock_guard tail(file->tail_mutex);
  RETURN_IF_ERROR(WriteTail(file));
  const std::lock_guard lock(state_->mutex);
  table_->RecordFrom(file, file->recorded);
  *position = file->position;
  return IOStatus::OK();
}

IOStatus FileWriter::WriteBuffer(File* file) {
  const std::uint64_t begin = AllocationTrace::Now();
  std::uint64_t position = 0;
  RETURN_IF_ERROR(WriteAndRecord(file, &position));
  // Recovery finds pieces only in log zones, and of files, that the log names.
  if (position <= state_->log->durable()) return IOStatus::OK();
  const IOStatus status = state_->log->Commit(position);
  state_->trace.AddSync(file->id, true, begin);
  return status;
}

IOStatus FileWriter::Sync(File* file) {
  const std::uint64_t begin = AllocationTrace::Now();
  std::uint64_t position = 0;
  RETURN_IF_ERROR(WriteAndRecord(file, &position));
  // Users wait for WAL syncs, so do not reset zones here. The next sync of another file resets
  // them, or a writer that runs out of space.
  const bool writes = position > state_->log->durable();
  const IOStatus status =
      file->kind == FileKind::kLog ? state_->log->Commit(position) : reclaimer_->Commit(position);
  state_->trace.AddSync(file->id, writes, begin);
  return status;
}

IOStatus FileWriter::FinishWriting(File* file, bool finish_zone) {
  std::unique_lock tail(file->tail_mutex);
  const IOStatus status = WriteTail(file);
  file->tail.reset();
  std::unique_lock lock(state_->mutex);
  table_->RecordFrom(file, file->recorded);
  const std::optional<std::uint32_t> to_finish = state_->allocator->Leave(file->id, finish_zone);
  state_->trace.Add(Step::kLeft, file->id, finish_zone);
  ++state_->returns;
  lock.unlock();
  tail.unlock();
  state_->changed.notify_all();
  if (to_finish) {
    commands_->FinishLater(*to_finish,
                           finish_zone ? FinishCause::kImport : FinishCause::kThreshold);
  }
  return status;
}

}  // namespace zlfs
