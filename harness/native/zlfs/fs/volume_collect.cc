// Collection of garbage: live content moves out of zones that are mostly garbage, in bounded steps.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <thread>
#include <utility>

#include "zlfs/fs/volume.h"

namespace zlfs {

// How often a writer without space looks whether readers let go of zones that are empty otherwise.
constexpr auto kLook = std::chrono::milliseconds(1);

IOStatus Volume::Pay(std::uint64_t written) {
  if (!superblock_.policy.gc) return IOStatus::OK();
  const std::unique_lock lock(collecting_, std::try_to_lock);
  if (!lock.owns_lock() || (!victim_ && !ChooseVictim())) return IOStatus::OK();
  ZoneSpace victim;
  {
    const std::lock_guard state(state_);
    victim = allocator_->zone(*victim_);
  }
  const IOStatus status = Collect(PriceOf(victim, written));
  // The writer's own bytes are written; whoever needs the space will see the error.
  return status.IsNoSpace() ? IOStatus::OK() : status;
}

IOStatus Volume::MakeRoom() {
  const std::lock_guard lock(collecting_);
  for (;;) {
    bool reset = false;
    RETURN_IF_ERROR(Reclaim(true, &reset));
    if (reset) return IOStatus::OK();
    if (superblock_.policy.gc && (victim_ || ChooseVictim())) {
      RETURN_IF_ERROR(Collect(std::numeric_limits<std::uint64_t>::max()));
      continue;
    }
    {
      const std::lock_guard state(state_);
      if (allocator_->Resettable(true).empty()) break;
    }
    std::this_thread::sleep_for(kLook);  // they are being read, and a read waits for nobody
  }
  return IOStatus::NoSpace("no-space", "nothing is left to collect");
}

bool Volume::ChooseVictim() {
  const std::lock_guard state(state_);
  victim_ = allocator_->PickVictim();
  if (!victim_) return false;
  trace_.Add(Step::kVictim, *victim_);
  runs_ = RunsIn(space_.files, *victim_);
  next_run_ = 0;
  return true;
}

IOStatus Volume::Collect(std::uint64_t bytes) {
  IOStatus status;
  for (; status.ok() && bytes > 0 && next_run_ < runs_.size(); ++next_run_) {
    Run& run = runs_[next_run_];
    status = CopyRun(&run);
    bytes -= std::min(bytes, run.end - run.begin);
  }
  if (status.ok() && next_run_ == runs_.size()) status = MoveRuns();
  if (status.ok()) return status;
  const std::lock_guard state(state_);
  for (const Run& run : runs_) Free(run.to);
  trace_.Add(Step::kAbandoned, 0);
  runs_.clear();
  victim_.reset();
  return status;
}

IOStatus Volume::CopyRun(Run* run) {
  if (run_buffer_ == nullptr) run_buffer_ = AllocateAligned(kRunBytes);
  const std::shared_ptr<const ExtentMap> map = Map(run->file.get());
  // Nothing, if the file was deleted meanwhile.
  const std::size_t filled = map->size == 0 ? 0 : run->end - run->begin;
  RETURN_IF_ERROR(ReadExtents(*map, run->begin, filled, run_buffer_.get()));
  const std::size_t size = RoundUp(filled, io_.geometry().block_size);
  std::memset(run_buffer_.get() + filled, 0, size - filled);
  for (std::size_t done = 0; done < size;) {
    std::unique_lock state(state_);
    const Decision grant = Allocate(
        &state,
        {.placement = {.cause = Cause::kGc, .lifetime = run->file->lifetime}, .size = size - done},
        next_run_, FileKind::kData, filled - done);
    state.unlock();
    if (grant.kind != Decision::Kind::kGrant) return IOStatus::NoSpace("no-space", "to collect");
    const std::uint64_t content = std::min<std::uint64_t>(grant.size, filled - done);
    RETURN_IF_ERROR(WriteGranted(grant, Cause::kGc, run_buffer_.get() + done, content, nullptr,
                                 [this, run](const Extent& extent) {
                                   run->to.push_back(extent);
                                   trace_.Add(Step::kWrote, next_run_,
                                              static_cast<std::uint64_t>(Cause::kGc));
                                 }));
    done += grant.size;
  }
  return IOStatus::OK();
}

IOStatus Volume::MoveRuns() {
  // The content was synced before. It has to be durable in its new place before a record says
  // that it is there.
  RETURN_IF_ERROR(io_.Flush());
  const std::lock_guard state(state_);
  std::map<std::uint64_t, std::pair<File*, std::uint64_t>> moved;  // id -> first byte that moved
  std::vector<Extent> garbage;
  for (const Run& run : runs_) {
    File* const file = run.file.get();
    if (!space_.files.contains(file->id)) {
      Free(run.to);  // deleted meanwhile; its old extents were freed then
      continue;
    }
    for (const Extent& extent : run.Replace()) garbage.push_back(extent);
    moved.try_emplace(file->id, file, run.begin);
  }
  for (const auto& [id, change] : moved) {
    File* const file = change.first;
    // Copies of recorded and unrecorded bytes may share a block now: both are recorded. Pieces say
    // nothing of those before them, so a log file's record has to say everything.
    const std::uint64_t known = file->kind == FileKind::kLog ? 0 : file->recorded;
    RecordFrom(file, std::min(known, change.second));
    ForgetMap(file);
  }
  ++collected_zones_;
  trace_.Add(Step::kMoved, garbage.empty() ? 0 : 1);
  if (!garbage.empty()) {
    freed_.push_back({.position = log_->appended(), .extents = std::move(garbage)});
  }
  runs_.clear();
  victim_.reset();
  return IOStatus::OK();
}

}  // namespace zlfs
