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

constexpr std::size_t kRunBytes = 1 << 20;
// How often a writer without space looks whether readers let go of zones that are empty otherwise.
constexpr auto kLook = std::chrono::milliseconds(1);

IOStatus Collector::Pay(std::uint64_t written) {
  if (!volume_->superblock_.policy.gc) return IOStatus::OK();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || (!victim_ && !Choose())) return IOStatus::OK();
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
  for (;;) {
    bool reset = false;
    RETURN_IF_ERROR(volume_->Reclaim(true, &reset));
    if (reset) return IOStatus::OK();
    if (volume_->superblock_.policy.gc && (victim_ || Choose())) {
      RETURN_IF_ERROR(Step(std::numeric_limits<std::uint64_t>::max()));
      continue;
    }
    {
      const std::lock_guard state(volume_->state_);
      if (volume_->allocator_->Resettable(true).empty()) break;
    }
    std::this_thread::sleep_for(kLook);  // they are being read, and a read waits for nobody
  }
  return IOStatus::NoSpace("no-space", "nothing is left to collect");
}

bool Collector::Choose() {
  const std::lock_guard state(volume_->state_);
  victim_ = volume_->allocator_->PickVictim();
  if (!victim_) return false;
  runs_.clear();
  next_ = 0;
  for (const auto& [id, file] : volume_->space_.files) {
    std::uint64_t at = 0;
    for (const Extent& extent : file->extents) {
      const std::uint64_t next = at + extent.length;
      // Cut at multiples of a block, so that both parts keep whole blocks.
      for (; extent.zone == *victim_ && at < next; at = runs_.back().end) {
        const std::uint64_t end = std::min(next, at + kRunBytes);
        const bool joins = !runs_.empty() && runs_.back().file == file && runs_.back().end == at &&
                           end - runs_.back().begin <= kRunBytes;
        if (!joins) runs_.push_back({.file = file, .begin = at});
        runs_.back().end = end;
      }
      at = next;
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
    if (run.end - run.begin >= bytes) break;
    bytes -= run.end - run.begin;
  }
  return next_ < runs_.size() ? IOStatus::OK() : Move();
}

IOStatus Collector::Copy(Run* run) {
  ZoneIo& io = volume_->io_;
  const std::size_t block = io.geometry().block_size;
  if (buffer_ == nullptr) buffer_ = AllocateAligned(kRunBytes);
  std::size_t filled = 0;
  std::vector<Extent> from;  // nothing, if the file was deleted meanwhile
  {
    const std::lock_guard state(volume_->state_);
    from = Part(run->file->extents, run->begin, run->end);
  }
  for (const Extent& extent : from) {
    RETURN_IF_ERROR(io.Read(extent.zone, extent.offset, extent.length, buffer_.get() + filled));
    filled += extent.length;
  }
  const std::size_t size = RoundUp(filled, block);
  std::memset(buffer_.get() + filled, 0, size - filled);
  for (std::size_t done = 0; done < size;) {
    Decision grant;
    {
      std::unique_lock state(volume_->state_);
      for (;;) {
        grant = volume_->allocator_->Allocate(
            {.cause = Cause::kGc, .lifetime = run->file->lifetime, .size = size - done});
        if (grant.kind != Decision::Kind::kWait) break;
        volume_->changed_.wait(state);
      }
    }
    if (grant.kind != Decision::Kind::kGrant) return IOStatus::NoSpace("no-space", "to collect");
    const std::uint64_t content = std::min<std::uint64_t>(grant.size, filled - done);
    RETURN_IF_ERROR(
        volume_->WriteGranted(grant, Cause::kGc, buffer_.get() + done, content, nullptr,
                              [run](const Extent& extent) { run->to.push_back(extent); }));
    done += grant.size;
  }
  return IOStatus::OK();
}

void Collector::Abandon() {
  const std::lock_guard state(volume_->state_);
  for (const Run& run : runs_) volume_->Free(run.to);
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
  std::map<std::uint64_t, std::pair<File*, std::uint64_t>> moved;  // id -> first byte that moved
  std::vector<Extent> garbage;
  for (const Run& run : runs_) {
    File* const file = run.file.get();
    if (!volume_->space_.files.contains(file->id)) {
      volume_->Free(run.to);  // deleted meanwhile; its old extents were freed then
      continue;
    }
    // The file is append-only and nobody else moves content: the run's bytes are where they were.
    const std::vector<Extent> old = std::move(file->extents);
    file->extents = Part(old, 0, run.begin);
    for (const Extent& extent : run.to) Join(&file->extents, extent);
    for (const Extent& extent : Part(old, run.end, file->size)) Join(&file->extents, extent);
    for (const Extent& extent : Part(old, run.begin, run.end)) garbage.push_back(extent);
    moved.try_emplace(file->id, file, run.begin);
  }
  for (const auto& [id, change] : moved) {
    File* const file = change.first;
    // Copies of recorded and unrecorded bytes may share a block now: both are recorded. Pieces say
    // nothing of those before them, so a log file's record has to say everything.
    const std::uint64_t known = file->kind == FileKind::kLog ? 0 : file->recorded;
    file->recorded = file->size;
    volume_->RecordExtents(file, std::min(known, change.second));
    volume_->ForgetMap(file);
  }
  ++volume_->collected_zones_;
  if (!garbage.empty()) {
    volume_->freed_.push_back(
        {.position = volume_->log_->appended(), .extents = std::move(garbage)});
    volume_->freed_waiting_ = true;
  }
  runs_.clear();
  victim_.reset();
  return IOStatus::OK();
}

}  // namespace zlfs
