#include "zlfs/fs/collector.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <thread>
#include <utility>

#include "zlfs/fs/volume.h"

namespace zlfs {
namespace {

constexpr std::size_t kRunBytes = 1 << 20;
// How long a writer without space waits for readers to let go of zones that are empty otherwise.
constexpr int kReaderWaits = 100;
constexpr auto kShortWait = std::chrono::milliseconds(1);

}  // namespace

IOStatus Collector::Pay(std::uint64_t written) {
  if (!volume_->superblock_.policy.gc) return IOStatus::OK();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return IOStatus::OK();
  if (!victim_ && !Choose()) return IOStatus::OK();
  ZoneSpace victim;
  {
    const std::lock_guard state(volume_->state_);
    victim = volume_->allocator_->zone(*victim_);
  }
  // By the time the writer has filled what the victim's garbage takes, the victim is free.
  const std::uint64_t gain = std::max<std::uint64_t>(victim.capacity - victim.kept.packed, 1);
  const IOStatus status = Step(written + written * victim.kept.packed / gain);
  // The writer's own bytes are written; whoever needs the space will see the error.
  return status.IsNoSpace() ? IOStatus::OK() : status;
}

IOStatus Collector::MakeRoom() {
  const std::lock_guard lock(mutex_);
  unsigned resets = 0;
  IOStatus status = volume_->Reclaim(true, &resets);
  if (!status.ok() || resets > 0) return status;
  while (volume_->superblock_.policy.gc && (victim_ || Choose())) {
    status = Step(std::numeric_limits<std::uint64_t>::max());
    if (status.ok()) status = volume_->Reclaim(true, &resets);
    if (!status.ok() || resets > 0) return status;
  }
  for (int i = 0; i < kReaderWaits; ++i) {
    std::this_thread::sleep_for(kShortWait);
    status = volume_->Reclaim(true, &resets);
    if (!status.ok() || resets > 0) return status;
    const std::lock_guard state(volume_->state_);
    if (volume_->guards_.empty()) break;
  }
  return IOStatus::NoSpace("no-space", "nothing is left to collect");
}

bool Collector::Choose() {
  const std::lock_guard state(volume_->state_);
  victim_ = volume_->allocator_->PickVictim();
  if (!victim_) return false;
  runs_.clear();
  next_ = 0;
  // In the order of ids: what is copied where must not depend on a hash table.
  std::vector<std::shared_ptr<File>> files;
  for (const auto& [id, file] : volume_->files_) files.push_back(file);
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  for (const auto& file : files) {
    std::uint64_t at = 0;
    for (const Extent& extent : file->extents) {
      // Cut at multiples of a block, so that both parts keep whole blocks.
      for (std::uint64_t done = 0; extent.zone == *victim_ && done < extent.length;) {
        const std::uint64_t length = std::min<std::uint64_t>(extent.length - done, kRunBytes);
        const bool joins = !runs_.empty() && runs_.back().file == file &&
                           runs_.back().file_offset + runs_.back().length == at + done &&
                           runs_.back().length + length <= kRunBytes;
        if (!joins) {
          runs_.push_back(
              {.file = file, .file_offset = at + done, .length = 0, .from = {}, .to = {}});
        }
        runs_.back().length += length;
        runs_.back().from.push_back(
            {.zone = extent.zone, .offset = extent.offset + done, .length = length});
        done += length;
      }
      at += extent.length;
    }
  }
  return true;
}

IOStatus Collector::Step(std::uint64_t bytes) {
  while (next_ < runs_.size()) {
    Run& run = runs_[next_];
    if (IOStatus status = Copy(&run); !status.ok()) {
      Abandon();
      return status;
    }
    ++next_;
    if (run.length >= bytes) break;
    bytes -= run.length;
  }
  return next_ < runs_.size() ? IOStatus::OK() : Move();
}

IOStatus Collector::Copy(Run* run) {
  ZoneIo& io = volume_->io_;
  const std::size_t block = io.geometry().block_size;
  if (buffer_ == nullptr) buffer_ = AllocateAligned(kRunBytes);
  std::size_t filled = 0;
  for (const Extent& extent : run->from) {
    const IOStatus status =
        io.Read(extent.zone, extent.offset, extent.length, buffer_.get() + filled);
    if (!status.ok()) return status;
    filled += extent.length;
  }
  const std::size_t size = RoundUp(filled, block);
  std::memset(buffer_.get() + filled, 0, size - filled);
  for (std::size_t done = 0; done < size;) {
    Decision grant;
    {
      std::unique_lock state(volume_->state_);
      for (;;) {
        grant = volume_->allocator_->Allocate({.stream = Stream::kCollector,
                                               .urgency = Urgency::kCollector,
                                               .lifetime = run->file->lifetime,
                                               .size = size - done});
        if (grant.kind != Decision::Kind::kWait) break;
        volume_->left_.wait_for(state, kShortWait);
      }
    }
    if (grant.kind != Decision::Kind::kGrant) return IOStatus::NoSpace("no-space", "to collect");
    auto& zone = volume_->zone_locks_[grant.zone];
    const std::lock_guard zone_lock(zone.mutex);
    const std::uint64_t at = zone.write_pointer;
    const std::uint64_t content = std::min<std::uint64_t>(grant.size, filled - done);
    const IOStatus status =
        io.Write(Cause::kGc, grant.zone, at, Slice(buffer_.get() + done, grant.size), content);
    const std::lock_guard state(volume_->state_);
    if (!status.ok()) {
      volume_->allocator_->Failed(grant.zone, grant.size, 0);
      return status;
    }
    zone.write_pointer += grant.size;
    run->to.push_back({.zone = grant.zone, .offset = at, .length = content});
    volume_->allocator_->Written(grant.zone, KeptBy(run->to.back(), block));
    done += grant.size;
  }
  return IOStatus::OK();
}

void Collector::Abandon() {
  const std::lock_guard state(volume_->state_);
  const std::uint64_t block = volume_->io_.geometry().block_size;
  for (const Run& run : runs_) {
    for (const Extent& extent : run.to) {
      volume_->allocator_->Freed(extent.zone, KeptBy(extent, block));
    }
  }
  runs_.clear();
  victim_.reset();
}

IOStatus Collector::Move() {
  // The content was synced before. It has to be durable in its new place before a record says
  // that it is there.
  if (IOStatus status = volume_->io_.Flush(); !status.ok()) {
    Abandon();
    return status;
  }
  const std::lock_guard state(volume_->state_);
  const std::uint64_t block = volume_->io_.geometry().block_size;
  std::map<std::uint64_t, std::pair<File*, std::uint64_t>> moved;  // id -> first byte that moved
  std::vector<Extent> garbage;
  for (const Run& run : runs_) {
    File* const file = run.file.get();
    if (!volume_->files_.contains(file->id)) {
      // Deleted meanwhile; its old extents were freed then.
      for (const Extent& extent : run.to) {
        volume_->allocator_->Freed(extent.zone, KeptBy(extent, block));
      }
      continue;
    }
    Replace(run);
    garbage.insert(garbage.end(), run.from.begin(), run.from.end());
    moved.try_emplace(file->id, file, run.file_offset);
  }
  for (const auto& [id, change] : moved) {
    File* const file = change.first;
    // Copies of recorded and unrecorded bytes may share a block now: both are recorded. Pieces say
    // nothing of those before them, so a log file's record has to say everything.
    const std::uint64_t known = file->kind == FileKind::kLog ? 0 : file->recorded;
    file->recorded = file->size;
    volume_->RecordExtents(file, std::min(known, change.second));
    const std::lock_guard lock(file->map_mutex);
    if (file->map != nullptr) volume_->guards_[*victim_].push_back(file->map);
    file->map.reset();
  }
  volume_->ledger_.Collected();
  if (!garbage.empty()) {
    volume_->freed_.push_back(
        {.position = volume_->log_->appended(), .extents = std::move(garbage)});
    volume_->freed_waiting_ = true;
  }
  runs_.clear();
  victim_.reset();
  return IOStatus::OK();
}

// The file is append-only and nobody else moves content, so the run's bytes are where they were.
void Collector::Replace(const Run& run) {
  std::vector<Extent> extents;
  const auto add = [&extents](const Extent& extent) {
    if (extent.length == 0) return;
    if (!extents.empty() && extents.back().zone == extent.zone &&
        extents.back().end() == extent.offset) {
      extents.back().length += extent.length;
    } else {
      extents.push_back(extent);
    }
  };
  const std::uint64_t begin = run.file_offset;
  const std::uint64_t end = begin + run.length;
  std::uint64_t at = 0;
  for (const Extent& extent : run.file->extents) {
    const std::uint64_t next = at + extent.length;
    if (at < begin) {
      add({.zone = extent.zone, .offset = extent.offset, .length = std::min(next, begin) - at});
    }
    if (at <= begin && begin < next) {
      for (const Extent& to : run.to) add(to);
    }
    if (next > end) {
      const std::uint64_t skip = at < end ? end - at : 0;
      add({.zone = extent.zone, .offset = extent.offset + skip, .length = extent.length - skip});
    }
    at = next;
  }
  run.file->extents = std::move(extents);
}

}  // namespace zlfs
