// Finish, reset and garbage collection of zones; the ledger.
//
// Garbage collection copies live content out of zones that are mostly garbage, in bounded steps.

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "zlfs/fs/volume.h"

namespace zlfs {

// Polling interval of a writer that waits for readers to unpin zones without live data.
constexpr auto kLook = std::chrono::milliseconds(1);
// Zones in which the collector tries to write a copy.
constexpr int kCopyAttempts = 4;

IOStatus Volume::Commit(std::uint64_t position) {
  RETURN_IF_ERROR(log_->Commit(position));
  return Reclaim(false);
}

IOStatus Volume::Reclaim(bool hard, bool* reset) {
  // A log zone needs two commits: one makes its last piece garbage, the other makes its end
  // durable.
  constexpr int kCommits = 2;
  for (int commits = 0;; ++commits) {
    std::vector<std::uint32_t> zones;
    std::unique_lock lock(state_);
    // freed_ is sorted by position.
    const std::uint64_t durable = log_->durable();
    auto freed = freed_.begin();
    for (; freed != freed_.end() && freed->position <= durable; ++freed) Free(freed->extents, true);
    trace_.Add(Step::kReclaim, static_cast<std::uint64_t>(freed - freed_.begin()), hard);
    freed_.erase(freed_.begin(), freed);
    bool needs_commit = !freed_.empty();
    for (const std::uint32_t zone : allocator_->Resettable(hard)) {
      if (!MayReset(zone, &needs_commit)) continue;
      allocator_->BeginReset(zone);
      trace_.Add(Step::kReset, zone);
      zones.push_back(zone);
    }
    const std::uint64_t position = log_->appended();
    lock.unlock();
    for (const std::uint32_t zone : zones) resetter_.Add(zone);
    // A caller that needs room also waits for zones that earlier commits freed.
    const bool waited = hard && resetter_.Drain();
    if (reset != nullptr) *reset = *reset || waited || !zones.empty();
    if (!hard || !needs_commit || commits == kCommits) return IOStatus::OK();
    RETURN_IF_ERROR(log_->Commit(position));
  }
}

void Volume::Free(const std::vector<Extent>& extents, bool released) {
  for (const Extent& extent : extents) {
    allocator_->Freed(extent.zone, KeptBy(extent, io_.geometry().block_size), released);
  }
}

void Volume::FreeLater(std::vector<Extent> extents) {
  for (const Extent& extent : extents) {
    allocator_->Released(extent.zone, KeptBy(extent, io_.geometry().block_size));
  }
  // The log already contains the record that released the extents, so this position covers it.
  freed_.push_back({.position = log_->appended(), .extents = std::move(extents)});
}

bool Volume::MayReset(std::uint32_t zone, bool* needs_commit) {
  if (!pins_[zone].expired()) return false;
  const auto log_zone = log_zones_.find(zone);
  if (log_zone == log_zones_.end()) return true;
  LogZone& log = log_zone->second;
  if (log.end == 0) log.end = log_->Append(LogZoneEndRecord{.zone = zone});
  if (log.end <= log_->durable()) return true;
  *needs_commit = true;
  return false;
}

void Volume::ResetZone(std::uint32_t zone) {
  ZoneLock& zone_lock = zone_locks_[zone];
  const std::lock_guard lock(zone_lock.mutex);
  const IOStatus status = io_.Reset(zone, false);
  const std::lock_guard state(state_);
  if (log_zones_.erase(zone) != 0) {
    for (const auto& [id, file] : space_.files) file->log_zones.erase(zone);
  }
  changed_.notify_all();
  if (!status.ok()) {
    // Retire the zone, but do not fail the caller: only capacity is lost.
    allocator_->Retire(zone);
    trace_.Add(Step::kTrouble, zone);
    return;
  }
  retired_.push_back(RetirementOf(*allocator_, zone, "reset"));
  zone_lock.last_piece = 0;
  allocator_->ResetDone(zone);
  trace_.Add(Step::kResetDone, zone);
  ++returns_;
}

void Volume::FinishZone(std::uint32_t zone, FinishCause cause) {
  const std::lock_guard lock(zone_locks_[zone].mutex);
  const ZoneSpace& space = allocator_->zone(zone);
  if (!io_.Finish(cause, zone, space.capacity - space.written).ok()) {
    Settle(zone);
    return;
  }
  const std::lock_guard state(state_);
  changed_.notify_all();
  retired_.push_back(RetirementOf(*allocator_, zone, "finish"));
  allocator_->Finished(zone);
  trace_.Add(Step::kFinished, zone);
}

void Volume::Settle(std::uint32_t zone) {
  using After = Allocator::After;
  const ZoneSpace& space = allocator_->zone(zone);
  std::vector<ZoneInfo> report;
  After after = After::kActive;  // also if the device does not answer
  if (device_->Report(zone, 1, &report).ok() && !IsActive(report[0].condition)) {
    const ZoneCondition condition = report[0].condition;
    const bool usable = condition == ZoneCondition::kFull || condition == ZoneCondition::kEmpty;
    after = usable ? After::kClosed : After::kLost;
  } else if (io_.Finish(FinishCause::kActiveLimit, zone, space.capacity - space.written).ok()) {
    after = After::kClosed;
  }
  const std::lock_guard state(state_);
  changed_.notify_all();
  allocator_->Settled(zone, after);
  trace_.Add(Step::kTrouble, zone);
}

void Volume::Pay(std::uint64_t written) {
  if (!superblock_.policy.gc) return;
  const std::unique_lock lock(collecting_, std::try_to_lock);
  if (!lock.owns_lock() || (!victim_ && !ChooseVictim())) return;
  std::unique_lock state(state_);
  const ZoneSpace victim = allocator_->zone(*victim_);
  state.unlock();
  // Ignore errors: the writer's own bytes are written. A later write that needs space reports it.
  Collect(PriceOf(victim, written)).PermitUncheckedError();
}

IOStatus Volume::MakeRoom() {
  const std::lock_guard lock(collecting_);
  for (;;) {
    bool reset = false;
    RETURN_IF_ERROR(Reclaim(true, &reset));
    if (reset) return IOStatus::OK();
    if (superblock_.policy.gc && (victim_ || ChooseVictim())) {
      const IOStatus status = Collect(std::numeric_limits<std::uint64_t>::max());
      // CopyRun excludes a victim that cannot be read, so the next choice is another one.
      if (!status.ok() && !status.IsAborted()) return status;
      continue;
    }
    {
      const std::lock_guard state(state_);
      if (allocator_->Resettable(true).empty()) break;
    }
    std::this_thread::sleep_for(kLook);  // readers pin the zones and do not signal when they finish
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
  const auto began = std::chrono::steady_clock::now();
  const IOStatus status = CopyRuns(bytes);
  collecting_time_ = collecting_time_.load() + (std::chrono::steady_clock::now() - began);
  return status;
}

IOStatus Volume::CopyRuns(std::uint64_t bytes) {
  IOStatus status;
  for (; status.ok() && bytes > 0 && next_run_ < runs_.size(); ++next_run_) {
    Run& run = runs_[next_run_];
    status = CopyRun(&run);
    bytes -= std::min(bytes, run.end - run.begin);
  }
  if (status.ok() && next_run_ == runs_.size()) status = MoveRuns();
  if (status.ok()) return status;
  const std::lock_guard state(state_);
  for (const Run& run : runs_) Free(run.to, false);
  trace_.Add(Step::kAbandoned, 0);
  runs_.clear();
  victim_.reset();
  return status;
}

IOStatus Volume::CopyRun(Run* run) {
  if (run_buffer_ == nullptr) run_buffer_ = AllocateAligned(kRunBytes);
  const std::shared_ptr<const ExtentMap> map = Map(run->file.get());
  // If the file was deleted in the meantime, copy nothing.
  const std::size_t filled = map->size == 0 ? 0 : run->end - run->begin;
  if (!ReadExtents(*map, run->begin, filled, run_buffer_.get()).ok()) {
    const std::lock_guard state(state_);
    allocator_->Unreadable(*victim_);
    trace_.Add(Step::kTrouble, *victim_);
    return IOStatus::Aborted("unreadable-victim");
  }
  const std::size_t size = RoundUp(filled, io_.geometry().block_size);
  std::memset(run_buffer_.get() + filled, 0, size - filled);
  int failures = 0;
  for (std::size_t done = 0; done < size;) {
    std::unique_lock state(state_);
    const Decision grant = Allocate(
        &state,
        {.placement = {.cause = Cause::kGc, .lifetime = run->file->lifetime}, .size = size - done},
        next_run_, FileKind::kData, filled - done);
    state.unlock();
    if (grant.kind != Decision::Kind::kGrant) {
      if (resetter_.Drain()) continue;
      return IOStatus::NoSpace("no-space", "to collect");
    }
    const std::uint64_t content = std::min<std::uint64_t>(grant.size, filled - done);
    const IOStatus status =
        WriteGranted(grant, Cause::kGc, next_run_, run_buffer_.get() + done, content, nullptr,
                     [run](const Extent& extent) { run->to.push_back(extent); });
    if (status.ok()) done += grant.size;
    if (!status.ok() && !status.IsAborted() && ++failures == kCopyAttempts) return status;
  }
  return IOStatus::OK();
}

IOStatus Volume::MoveRuns() {
  const auto lives = [this](const Run& run) { return space_.files.contains(run.file->id); };
  std::unique_lock state(state_);
  const bool moves = std::ranges::any_of(runs_, lives);
  state.unlock();
  // The original may already be durable, so the copy must be durable before a record refers to it.
  if (moves) RETURN_IF_ERROR(io_.Flush());
  state.lock();
  std::map<std::uint64_t, std::pair<File*, std::uint64_t>> moved;  // id -> first byte that moved
  std::vector<Extent> garbage;
  for (const Run& run : runs_) {
    File* const file = run.file.get();
    if (!lives(run)) {
      Free(run.to, false);  // the file was deleted, which already freed its old extents
      continue;
    }
    for (const Extent& extent : run.Replace()) garbage.push_back(extent);
    moved.try_emplace(file->id, file, run.begin);
  }
  for (const auto& [id, change] : moved) {
    File* const file = change.first;
    // Copies of recorded and unrecorded bytes may share a block, so record both. A piece does not
    // describe the bytes before it, so the record of a log file covers the whole file.
    const std::uint64_t known = file->kind == FileKind::kLog ? 0 : file->recorded;
    RecordFrom(file, std::min(known, change.second));
    ForgetMap(file);
  }
  if (!moved.empty()) ++collected_zones_;
  trace_.Add(Step::kMoved, garbage.empty() ? 0 : 1);
  if (!garbage.empty()) FreeLater(std::move(garbage));
  runs_.clear();
  victim_.reset();
  return IOStatus::OK();
}

TotalsRecord Volume::SinceMkfs() const {
  const Totals now = totals();
  TotalsRecord all = space_.totals;
  all.collected_bytes += now.written[static_cast<std::size_t>(Cause::kGc)].payload;
  all.collected_zones += collected_zones_;
  for (const auto& finishes : now.finishes) all.finishes += finishes.count;
  all.resets += now.resets_data + now.resets_metadata;
  return all;
}

SpaceUse Volume::Space() {
  const std::lock_guard lock(state_);
  return SpaceOf(*allocator_);
}

std::vector<ZoneSpace> Volume::Zones() {
  const std::lock_guard lock(state_);
  return allocator_->zones();
}

void Volume::KeepLedger(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "zlfs-ledger");  // allows measuring its CPU time
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  const auto stopped = [&stop] { return stop.stop_requested(); };
  while (!never.wait_for(lock, stop, std::chrono::seconds(1), stopped)) {
    ledger_ << LedgerLine("sample") << std::endl;
  }
}

std::string Volume::LedgerLine(const char* event) {
  const Totals now = totals();
  const std::lock_guard lock(state_);
  nlohmann::json line =
      LedgerCounts(now, collected_zones_, SpaceOf(*allocator_), std::exchange(retired_, {}));
  line["t"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  line["mounted"] = mounted_;
  line["collecting_ns"] = collecting_time_.load().count();
  line["identity"] = superblock_.identity();
  line["event"] = event;
  if (event == std::string_view("close")) line["zones"] = LedgerZones(*allocator_);
  return line.dump();
}

}  // namespace zlfs
