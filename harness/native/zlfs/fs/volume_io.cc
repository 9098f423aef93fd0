// File content: appends, syncs and reads.

#include <algorithm>
#include <cstring>

#include "zlfs/format/sealed.h"
#include "zlfs/fs/volume.h"

namespace zlfs {
namespace {

// Size of a writer's buffer: large enough to amortize the cost of device commands, small enough for
// hundreds of open files.
constexpr std::size_t kTailBytes = 1 << 20;

// Zones in which a write is tried before its file fails. Errors of a zone, of a namespace that
// comes back, and of a lost device differ in nothing else.
constexpr int kWriteAttempts = 4;

std::size_t HeadSize(const File& file) { return file.kind == FileKind::kLog ? kHeaderSize : 0; }

}  // namespace

void Volume::SetPlacement(File* file, const Placement& placement) {
  const std::lock_guard tail(file->tail_mutex);
  const std::lock_guard lock(state_);
  file->placement = placement;
  file->lifetime = placement.lifetime;
}

IOStatus Volume::Append(File* file, Slice data) {
  const std::lock_guard tail(file->tail_mutex);
  if (!file->failed.ok()) return file->failed;
  const std::size_t head = HeadSize(*file);
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

IOStatus Volume::WriteTail(File* file) {
  if (file->failed.ok()) {
    file->failed = WriteOut(file);
    if (file->failed.IsIOError()) file->failed.SetRetryable(true);  // other files can be written
  }
  if (!file->failed.ok()) file->tail_size = 0;
  return file->failed;
}

IOStatus Volume::WriteOut(File* file) {
  const File* const log = file->kind == FileKind::kLog ? file : nullptr;
  // RocksDB begins a WAL without syncing the one before, and its recovery sees no gap between them.
  if (log != nullptr && log->size == 0 && log->tail_size > 0) RETURN_IF_ERROR(io_.Flush());
  const std::size_t head = HeadSize(*file);
  const Written written = [this, file](const Extent& extent) {
    Join(&file->extents, extent);
    file->size += extent.length;
    if (file->kind == FileKind::kLog) {
      file->recorded = file->size;
      if (!file->deleted) allocator_->LogsGrew(extent.length);
    }
    ForgetMap(file);
  };
  for (int failures = 0; file->tail_size > 0;) {
    char* const buffer = file->tail.get();
    const std::size_t used = head + file->tail_size;
    const std::size_t size = RoundUp(used, io_.geometry().block_size);
    std::memset(buffer + used, 0, size - used);
    Decision grant;
    RETURN_IF_ERROR(Reserve(file, size, &grant));
    const std::size_t content = std::min<std::size_t>(file->tail_size, grant.size - head);
    const IOStatus status =
        WriteGranted(grant, file->placement.cause, file->id, buffer, content, log, written);
    if (status.IsAborted()) continue;
    if (!status.ok() && ++failures == kWriteAttempts) return status;
    if (!status.ok()) continue;
    failures = 0;
    // If the zone has less room, the rest goes to another zone.
    file->tail_size -= content;
    std::memmove(buffer + head, buffer + head + content, file->tail_size);
    if (low_space_.load(std::memory_order_relaxed)) Pay(grant.size);
  }
  return IOStatus::OK();
}

IOStatus Volume::Reserve(File* file, std::uint64_t size, Decision* grant) {
  const Request request{.placement = file->placement, .writer = file->id, .size = size};
  const Cause cause = request.placement.cause;
  for (;;) {
    std::unique_lock lock(state_);
    *grant = Allocate(&lock, request, file->id, file->kind, file->tail_size);
    low_space_.store(allocator_->LowSpace(), std::memory_order_relaxed);
    if (grant->kind == Decision::Kind::kGrant) {
      if (cause != Cause::kWal) return IOStatus::OK();
      const auto [entry, added] = log_zones_.try_emplace(grant->zone);
      LogZone& zone = entry->second;
      if (added) {
        zone.offset = allocator_->zone(grant->zone).written;
        zone.position = log_->Append(LogZoneRecord{.zone = grant->zone, .offset = zone.offset});
      }
      file->position = std::max(file->position, zone.position);
      if (!file->deleted && file->log_zones.insert(grant->zone).second) {
        file->position = log_->Append(LogFileRecord{.file = file->id, .zone = grant->zone});
      }
      return IOStatus::OK();
    }
    const std::uint64_t returns = returns_;
    lock.unlock();
    if (grant->kind == Decision::Kind::kFinish) {
      FinishZone(grant->zone, FinishCause::kActiveLimit);
      continue;
    }
    const IOStatus status = MakeRoom();
    if (status.ok()) continue;
    if (!status.IsNoSpace() || !SpaceReturns(cause, returns)) return status;
  }
}

Decision Volume::Allocate(std::unique_lock<std::mutex>* state, const Request& request,
                          std::uint64_t subject, FileKind kind, std::uint64_t content) {
  for (;; changed_.wait(*state)) {
    const Decision decision = allocator_->Allocate(request);
    trace_.Add(AskEvent{.subject = subject,
                        .kind = kind,
                        .cause = static_cast<std::uint8_t>(request.placement.cause),
                        .job = request.placement.job,
                        .lifetime = request.placement.lifetime,
                        .content = content,
                        .decision = static_cast<std::uint8_t>(decision.kind),
                        .zone = decision.zone,
                        .size = decision.size});
    if (decision.kind != Decision::Kind::kWait) return decision;
  }
}

bool Volume::SpaceReturns(Cause cause, std::uint64_t returns) {
  std::unique_lock lock(state_);
  const auto returned = [this, returns] { return returns_ != returns; };
  for (bool hope = true; hope && !returned();) {
    const std::uint64_t before = allocator_->clock();
    patience_->Wait(&lock, &changed_, returned);
    hope = allocator_->clock() != before || (IsShared(cause) && allocator_->JobsWrite());
  }
  return returned();
}

IOStatus Volume::WriteGranted(const Decision& grant, Cause cause, std::uint64_t subject,
                              char* buffer, std::size_t content, const File* log,
                              const Written& written) {
  ZoneLock& zone = zone_locks_[grant.zone];
  const std::lock_guard zone_lock(zone.mutex);
  if (allocator_->zone(grant.zone).broken) {
    // A piece behind the failed one would chain to a piece that may not be there.
    const std::lock_guard lock(state_);
    allocator_->Canceled(grant.zone, grant.size);
    changed_.notify_all();
    return IOStatus::Aborted("broken-zone");
  }
  const std::uint64_t at = allocator_->zone(grant.zone).written;
  std::uint64_t piece = 0;
  if (log != nullptr) {
    piece = Seal({.magic = kPieceMagic,
                  .size = static_cast<std::uint32_t>(content),
                  .subject = log->id,
                  .position = log->size,  // only this thread changes it
                  .generation = log_->generation(),
                  .number = ++piece_number_,
                  .previous = zone.last_piece},
                 buffer, grant.size);
  }
  std::uint64_t written_bytes = 0;
  IOStatus status =
      io_.Write(cause, grant.zone, at, Slice(buffer, grant.size), content, &written_bytes);
  std::unique_lock lock(state_);
  changed_.notify_all();
  if (!status.ok()) {
    allocator_->Failed(grant.zone, grant.size, written_bytes);
    trace_.Add(Step::kTrouble, grant.zone);
    lock.unlock();
    Settle(grant.zone);
    return status;
  }
  if (log != nullptr) zone.last_piece = piece;
  const std::size_t head = log != nullptr ? kHeaderSize : 0;
  const Extent extent{.zone = grant.zone, .offset = at + head, .length = content};
  allocator_->Written(grant.zone, KeptBy(extent, io_.geometry().block_size));
  written(extent);
  trace_.Add(Step::kWrote, subject, static_cast<std::uint64_t>(cause));
  return status;
}

IOStatus Volume::WriteBuffer(File* file) {
  const std::uint64_t begin = AllocationTrace::Now();
  std::unique_lock tail(file->tail_mutex);
  RETURN_IF_ERROR(WriteTail(file));
  std::unique_lock lock(state_);
  RecordFrom(file, file->recorded);
  const std::uint64_t position = file->position;
  lock.unlock();
  tail.unlock();
  // Recovery finds pieces only in log zones, and of files, that the log names.
  if (position <= log_->durable()) return IOStatus::OK();
  const IOStatus status = log_->Commit(position);
  trace_.AddSync(file->id, true, begin);
  return status;
}

IOStatus Volume::Sync(File* file) {
  const std::uint64_t begin = AllocationTrace::Now();
  std::unique_lock tail(file->tail_mutex);
  RETURN_IF_ERROR(WriteTail(file));
  std::unique_lock lock(state_);
  RecordFrom(file, file->recorded);
  const std::uint64_t position = file->position;
  lock.unlock();
  tail.unlock();
  // Users wait for WAL syncs, so do not reset zones here. The next sync of another file resets
  // them, or a writer that runs out of space.
  const bool writes = position > log_->durable();
  const IOStatus status = file->kind == FileKind::kLog ? log_->Commit(position) : Commit(position);
  trace_.AddSync(file->id, writes, begin);
  return status;
}

IOStatus Volume::FinishWriting(File* file, bool finish_zone) {
  std::unique_lock tail(file->tail_mutex);
  IOStatus status = WriteTail(file);
  file->tail.reset();
  std::unique_lock lock(state_);
  RecordFrom(file, file->recorded);
  const std::optional<std::uint32_t> to_finish = allocator_->Leave(file->id, finish_zone);
  trace_.Add(Step::kLeft, file->id, finish_zone);
  ++returns_;
  lock.unlock();
  tail.unlock();
  changed_.notify_all();
  if (to_finish) {
    FinishZone(*to_finish, finish_zone ? FinishCause::kImport : FinishCause::kThreshold);
  }
  return status;
}

std::uint64_t Volume::Size(File* file) {
  const std::lock_guard tail(file->tail_mutex);
  const std::lock_guard lock(state_);
  return file->size + file->tail_size;
}

std::shared_ptr<const ExtentMap> Volume::Map(File* file) {
  {
    const std::lock_guard lock(file->map_mutex);
    if (file->map != nullptr) return file->map;
  }
  const std::lock_guard lock(state_);
  const std::lock_guard map_lock(file->map_mutex);
  auto map = std::make_shared<ExtentMap>();
  map->extents = file->extents;
  for (const Extent& extent : file->extents) {
    map->starts.push_back(map->size);
    map->size += extent.length;
    std::shared_ptr<const void> pin = pins_[extent.zone].lock();
    if (pin == nullptr) pins_[extent.zone] = pin = std::make_shared<char>();
    map->pins.push_back(std::move(pin));
  }
  file->map = map;
  return map;
}

void Volume::ForgetMap(File* file) {
  const std::lock_guard lock(file->map_mutex);
  file->map.reset();
}

IOStatus Volume::Read(File* file, std::uint64_t offset, std::size_t size, Slice* read, char* to) {
  *read = Slice();
  std::shared_ptr<const ExtentMap> map = Map(file);
  std::uint64_t end = offset + size;
  std::unique_lock tail(file->tail_mutex, std::defer_lock);
  if (end > map->size) {
    // The end of the file may still be in the writer's buffer. Release the map before locking: the
    // writer may be waiting for readers to unpin a zone.
    map.reset();
    tail.lock();
    map = Map(file);
    if (file->lost_zone) {
      const std::lock_guard lock(state_);  // guards the name
      return IOStatus::IOError(
          "lost-content", file->name + " from byte " + std::to_string(map->size) + " on: zone " +
                              std::to_string(*file->lost_zone) + " cannot be read");
    }
    end = std::min(end, map->size + file->tail_size);
  }
  if (offset >= end) return IOStatus::OK();
  const std::uint64_t stored = std::clamp(map->size, offset, end) - offset;
  const std::uint64_t buffered = end - offset - stored;
  RETURN_IF_ERROR(ReadExtents(*map, offset, stored, to));
  if (buffered > 0) {
    const char* const from = file->tail.get() + HeadSize(*file) + (offset + stored - map->size);
    std::memcpy(to + stored, from, buffered);
  }
  *read = Slice(to, end - offset);
  return IOStatus::OK();
}

void Volume::ReadMany(std::size_t count, const ReadPool::Work& work) {
  if (count > 1 && io_.geometry().waits) return read_pool_.ForEach(count, work);
  for (std::size_t i = 0; i < count; ++i) work(i);
}

IOStatus Volume::TracedRead(File* file, bool compaction, std::uint64_t offset, std::size_t size,
                            Slice* read, char* to) {
  if (!trace_.Takes(compaction)) return Read(file, offset, size, read, to);
  const std::uint64_t begin = AllocationTrace::Now();
  const IOStatus status = Read(file, offset, size, read, to);
  if (status.ok()) trace_.AddRead(file->id, offset, read->size(), begin);
  return status;
}

IOStatus Volume::ReadExtents(const ExtentMap& map, std::uint64_t offset, std::size_t size,
                             char* to) {
  std::size_t index = static_cast<std::size_t>(
      std::upper_bound(map.starts.begin(), map.starts.end(), offset) - map.starts.begin() - 1);
  for (; size > 0; ++index) {
    const Extent& extent = map.extents[index];
    const std::uint64_t skip = offset - map.starts[index];
    const std::size_t n = std::min<std::uint64_t>(size, extent.length - skip);
    RETURN_IF_ERROR(io_.Read(extent.zone, extent.offset + skip, n, to));
    to += n;
    offset += n;
    size -= n;
  }
  return IOStatus::OK();
}

}  // namespace zlfs
