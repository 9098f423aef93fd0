#include "zlfs/fs/zone_commands.h"

#include <utility>

#include "zlfs/format/sealed.h"

namespace zlfs {

bool IsRefusal(const IOStatus& status) {
  return IsNamed(status, DeviceError::kActiveLimit) || IsNamed(status, DeviceError::kOpenLimit);
}

Decision ZoneCommands::Allocate(std::unique_lock<std::mutex>* lock, const Request& request,
                                std::uint64_t subject, FileKind kind, std::uint64_t content) {
  for (;; state_->changed.wait(*lock)) {
    if (state_->allocator->AwaitsFinish(request)) continue;
    const Decision decision = state_->allocator->Allocate(request);
    state_->trace.Add(AskEvent{.subject = subject,
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

IOStatus ZoneCommands::Write(const Decision& grant, Cause cause, std::uint64_t subject,
                             char* buffer, std::size_t content, const File* log,
                             const Written& written) {
  Allocator& allocator = *state_->allocator;
  ZoneLock& zone = locks_[grant.zone];
  const std::lock_guard zone_lock(zone.mutex);
  if (allocator.zone(grant.zone).broken) {
    // A piece behind the failed one would chain to a piece that may not be there.
    const std::lock_guard lock(state_->mutex);
    allocator.Canceled(grant.zone, grant.size);
    state_->changed.notify_all();
    return IOStatus::Aborted("broken-zone");
  }
  const std::uint64_t at = allocator.zone(grant.zone).written;
  std::uint64_t piece = 0;
  if (log != nullptr) {
    piece = Seal({.magic = kPieceMagic,
                  .size = static_cast<std::uint32_t>(content),
                  .subject = log->id,
                  .position = log->size,  // only the holder of tail_mutex changes it
                  .generation = state_->log->generation(),
                  .number = ++piece_number_,
                  .previous = zone.last_piece},
                 buffer, grant.size);
  }
  std::uint64_t written_bytes = 0;
  const IOStatus status =
      state_->io.Write(cause, grant.zone, at, Slice(buffer, grant.size), content, &written_bytes);
  std::unique_lock lock(state_->mutex);
  state_->changed.notify_all();
  if (IsRefusal(status) && written_bytes == 0) {
    allocator.Refused(grant.zone, grant.size);
    state_->trace.Add(Step::kTrouble, grant.zone);
    return status;
  }
  if (!status.ok()) {
    allocator.Failed(grant.zone, grant.size, written_bytes);
    // The blocks of the failed write may be unreadable, which would hide the end of the pieces.
    log_zones_->End(grant.zone);
    state_->trace.Add(Step::kTrouble, grant.zone);
    lock.unlock();
    Settle(grant.zone);
    return status;
  }
  if (log != nullptr) zone.last_piece = piece;
  const std::size_t head = log != nullptr ? kHeaderSize : 0;
  const Extent extent{.zone = grant.zone, .offset = at + head, .length = content};
  allocator.Written(grant.zone, KeptBy(extent, state_->io.geometry().block_size));
  written(extent);
  state_->trace.Add(Step::kWrote, subject, static_cast<std::uint64_t>(cause));
  return status;
}

void ZoneCommands::Finish(std::uint32_t zone, FinishCause cause) {
  Allocator& allocator = *state_->allocator;
  const std::lock_guard zone_lock(locks_[zone].mutex);
  const ZoneSpace& space = allocator.zone(zone);
  if (!state_->io.Finish(cause, zone, space.capacity - space.written).ok()) {
    Settle(zone);
    return;
  }
  const std::lock_guard lock(state_->mutex);
  state_->changed.notify_all();
  retired_.push_back(RetirementOf(allocator, zone, "finish"));
  allocator.Finished(zone);
  state_->trace.Add(Step::kFinished, zone);
}

void ZoneCommands::FinishLater(std::uint32_t zone, FinishCause cause) {
  finishes_.Add([this, zone, cause] { Finish(zone, cause); });
}

void ZoneCommands::Settle(std::uint32_t zone) {
  using After = Allocator::After;
  const ZoneSpace& space = state_->allocator->zone(zone);
  std::vector<ZoneInfo> report;
  After after = After::kActive;  // also if the device does not answer
  if (state_->device->Report(zone, 1, &report).ok() && !IsActive(report[0].condition)) {
    const ZoneCondition condition = report[0].condition;
    const bool usable = condition == ZoneCondition::kFull || condition == ZoneCondition::kEmpty;
    after = usable ? After::kClosed : After::kLost;
  } else if (state_->io.Finish(FinishCause::kActiveLimit, zone, space.capacity - space.written)
                 .ok()) {
    after = After::kClosed;
  }
  const std::lock_guard lock(state_->mutex);
  state_->changed.notify_all();
  state_->allocator->Settled(zone, after);
  ++state_->returns;  // the zone may be resettable only now
  state_->trace.Add(Step::kTrouble, zone);
}

void ZoneCommands::Reset(std::uint32_t zone) {
  Allocator& allocator = *state_->allocator;
  ZoneLock& zone_lock = locks_[zone];
  const std::lock_guard locked(zone_lock.mutex);
  const IOStatus status = state_->io.Reset(zone, false);
  const std::lock_guard lock(state_->mutex);
  log_zones_->Forget(zone);
  state_->changed.notify_all();
  if (!status.ok()) {
    // Retire the zone, but do not fail the caller: only capacity is lost.
    allocator.Retire(zone);
    state_->trace.Add(Step::kTrouble, zone);
    return;
  }
  retired_.push_back(RetirementOf(allocator, zone, "reset"));
  zone_lock.last_piece = 0;
  allocator.ResetDone(zone);
  state_->trace.Add(Step::kResetDone, zone);
  ++state_->returns;
}

std::vector<Retirement> ZoneCommands::TakeRetired() { return std::exchange(retired_, {}); }

}  // namespace zlfs
