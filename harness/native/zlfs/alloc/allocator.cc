#include "zlfs/alloc/allocator.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "zlfs/alloc/reserve.h"

namespace zlfs {
namespace {

// New data must leave one zone in kSpareShare, but at least kLeastSpare. They are for compactions,
// and for the deletions of a full database when WALs get no zone.
constexpr std::uint32_t kSpareShare = 100;
constexpr std::uint32_t kLeastSpare = 2;
// The collector begins this many empty zones before writers must wait for it.
constexpr std::uint32_t kCollectAhead = 2;
// A victim must gain at least 1/32 of its zone. Below that, collecting moves 31 bytes to gain one,
// and the device is practically full.
constexpr std::uint64_t kMinGain = 32;
// A zone is not used again after this many failed commands.
constexpr std::uint8_t kMostFailures = 3;

}  // namespace

Allocator::Allocator(AllocatorSetup setup)
    : policy_(setup.policy),
      block_size_(setup.block_size),
      active_budget_(setup.active_budget),
      skip_released_(setup.skip_released),
      zones_(std::move(setup.zones)),
      log_bytes_(setup.log_bytes) {
  std::uint32_t usable = 0;
  for (ZoneSpace& zone : zones_) {
    if (zone.use == ZoneUse::kUnusable) continue;
    capacity_ = usable++ == 0 ? zone.capacity : std::min(capacity_, zone.capacity);
    if (zone.use == ZoneUse::kEmpty) ++empty_;
    zone.active = zone.use == ZoneUse::kActive;
  }
  spare_ = std::max(kLeastSpare, usable / kSpareShare);
  gc_start_ = usable * policy_.gc_start_pct / 100;
}

Reserve Allocator::Reserved() const {
  Reserve reserve{.zone_capacity = capacity_,
                  .log_bytes = log_bytes_,
                  .log_zones = log_zones_,
                  .spare = spare_};
  const auto log = current_.find(Cause::kWal);
  if (log != current_.end() && log_zones_ > 1) {
    reserve.log_room = zones_[log->second].capacity - zones_[log->second].written;
  }
  return reserve;
}

std::uint32_t Allocator::Keeps(Cause cause) const { return Reserved().For(cause); }

bool Allocator::LowSpace() const {
  return empty_ + resetting_ < std::max(gc_start_, kept_zones() + kCollectAhead);
}

bool Allocator::Writable(const ZoneSpace& zone) const {
  return zone.use == ZoneUse::kActive && !zone.broken && zone.room() >= block_size_;
}

std::optional<std::uint32_t> Allocator::Inherited(std::uint8_t lifetime) const {
  const auto unowned = NearestActive(lifetime, Of::kUnowned);
  return unowned && zones_[*unowned].lifetime == lifetime ? unowned : std::nullopt;
}

bool Allocator::WithinLimit(Cause cause) const {
  const auto without = kSharedCauses - static_cast<std::uint32_t>(current_.size());
  return active_budget_ == 0 || active_zones() + (IsShared(cause) ? 0 : without) < active_budget_;
}

std::uint32_t Allocator::OpenEmpty(std::uint8_t lifetime) {
  assert(empty_ > 0);
  while (zones_[cursor_].use != ZoneUse::kEmpty) cursor_ = (cursor_ + 1) % zone_count();
  ZoneSpace& zone = zones_[cursor_];
  zone.use = ZoneUse::kActive;
  zone.lifetime = lifetime;
  zone.opened = clock_;
  zone.active = true;
  --empty_;
  return cursor_;
}

Decision Allocator::Grant(std::uint32_t index, std::uint64_t size) {
  ZoneSpace& zone = zones_[index];
  const std::uint64_t granted = std::min(size, zone.room() / block_size_ * block_size_);
  assert(granted > 0);
  zone.in_flight += granted;
  return {.kind = Decision::Kind::kGrant, .zone = index, .size = granted};
}

bool Allocator::AwaitsFinish(const Request& request) const {
  const auto [cause, job, lifetime] = request.placement;
  if (IsShared(cause) || MayOpen(cause) || empty_ <= Keeps(cause)) return false;
  const auto writer = writers_.find(request.writer);
  const bool owns = writer != writers_.end() && writer->second.zone.has_value();
  if (owns && Writable(zones_[*writer->second.zone])) return false;
  const auto finishes = [](const ZoneSpace& zone) { return zone.use == ZoneUse::kFinishing; };
  return std::ranges::any_of(zones_, finishes) && !Inherited(policy_.lifetimes ? lifetime : 0);
}

Decision Allocator::Allocate(const Request& request) {
  Request asked = request;
  if (!policy_.lifetimes) asked.placement.lifetime = 0;
  return IsShared(asked.placement.cause) ? AllocateShared(asked) : AllocateData(asked);
}

Decision Allocator::AllocateShared(const Request& request) {
  const auto [cause, job, lifetime] = request.placement;
  if (const auto current = current_.find(cause); current != current_.end()) {
    if (Writable(zones_[current->second])) return Grant(current->second, request.size);
    Detach(&zones_[current->second]);
  }
  std::optional<std::uint32_t> taken;
  const bool log = cause == Cause::kWal;
  const bool space = empty_ > Keeps(cause);
  if (space && MayOpen(cause)) {
    taken = OpenEmpty(lifetime);
  } else {
    // After a mount, all active zones can be leftovers of other causes or belong to data writers.
    taken = NearestActive(lifetime, Of::kUnowned);
    if (!taken) taken = NearestActive(lifetime, Of::kIdle);
    if (log && taken && log_zones_ > 0 && empty_ < Reserved().WithLogs(zones_[*taken].room())) {
      taken.reset();
    }
  }
  if (!taken && space && WithinLimit(cause)) taken = OpenEmpty(lifetime);  // refused before
  if (!taken) return WaitOrNoSpace(space);
  if (log) ++log_zones_;
  Detach(&zones_[*taken]);
  zones_[*taken].shared_by = cause;
  current_[cause] = *taken;
  return Grant(*taken, request.size);
}

Decision Allocator::AllocateData(const Request& request) {
  const auto [cause, job, lifetime] = request.placement;
  Writer& writer = writers_[request.writer];
  writer.placement = request.placement;
  if (writer.zone) {
    if (Writable(zones_[*writer.zone])) return Grant(*writer.zone, request.size);
    Detach(&zones_[*writer.zone]);
  }
  const auto take = [this, &request, &writer](std::uint32_t index) {
    if (zones_[index].owner == 0) {
      zones_[index].owner = request.writer;
      writer.zone = index;
    }
    return Grant(index, request.size);
  };
  if (const auto inherited = Inherited(lifetime)) return take(*inherited);
  const bool space = empty_ > Keeps(cause);
  if (space && MayOpen(cause)) return take(OpenEmpty(lifetime));
  if (space && policy_.on_active_limit == OnActiveLimit::kFinish) {
    if (const auto fullest = TakeFullest()) {
      return {.kind = Decision::Kind::kFinish, .zone = *fullest};
    }
  }
  if (space && policy_.on_active_limit == OnActiveLimit::kWait) {
    if (cause != Cause::kCompaction && CompactionsOwn()) {
      return {.kind = Decision::Kind::kWait};
    }
  }
  if (const auto unowned = NearestActive(lifetime, Of::kUnowned)) return take(*unowned);
  if (const auto any = NearestActive(lifetime, Of::kAny)) return take(*any);
  if (space && WithinLimit(cause)) return take(OpenEmpty(lifetime));  // refused before
  return WaitOrNoSpace(space);
}

Decision Allocator::WaitOrNoSpace(bool space) const {
  if (!space) return {};
  // A fully granted zone stays active until its last block is written.
  const bool soon = std::ranges::any_of(zones_, [](const ZoneSpace& zone) {
    return zone.active && (zone.in_flight != 0 || zone.use == ZoneUse::kFinishing ||
                           zone.use == ZoneUse::kResetting || zone.use == ZoneUse::kSettling);
  });
  return {.kind = soon ? Decision::Kind::kWait : Decision::Kind::kNoSpace};
}

bool Allocator::CompactionsOwn() const {
  return std::ranges::any_of(writers_, [](const auto& entry) {
    return entry.second.zone && entry.second.placement.cause == Cause::kCompaction;
  });
}

bool Allocator::JobsWrite() const {
  return std::ranges::any_of(writers_,
                             [](const auto& entry) { return entry.second.placement.job; });
}

std::optional<std::uint32_t> Allocator::NearestActive(std::optional<std::uint8_t> lifetime, Of of,
                                                      const std::vector<bool>& spared) const {
  std::optional<std::uint32_t> best;
  std::tuple<int, std::uint64_t> least;
  for (std::uint32_t i = 0; i < zone_count(); ++i) {
    const ZoneSpace& zone = zones_[i];
    if (!Writable(zone) || zone.shared_by) continue;
    if (of == Of::kUnowned && zone.owner != 0) continue;
    if (of != Of::kAny && zone.in_flight != 0) continue;
    if (!spared.empty() && spared[i]) continue;
    const int distance = lifetime ? std::abs(zone.lifetime - *lifetime) : 0;
    const std::tuple key{distance, zone.room()};
    if (!best || key < least) std::tie(best, least) = std::make_pair(i, key);
  }
  return best;
}

std::optional<std::uint32_t> Allocator::TakeFullest(const std::vector<bool>& spared) {
  const auto fullest = NearestActive(std::nullopt, Of::kUnowned, spared);
  if (fullest) zones_[*fullest].use = ZoneUse::kFinishing;
  return fullest;
}

void Allocator::Written(std::uint32_t index, const Kept& kept) {
  ZoneSpace& zone = zones_[index];
  assert(zone.in_flight >= kept.held);
  zone.in_flight -= kept.held;
  zone.written += kept.held;
  zone.kept += kept;
  clock_ += kept.held;
  zone.last_write = clock_;
  FillIfFull(index);
}

void Allocator::Failed(std::uint32_t index, std::uint64_t size, std::uint64_t written) {
  ZoneSpace& zone = zones_[index];
  zone.in_flight -= size;
  zone.written += written;
  zone.use = ZoneUse::kSettling;
  zone.broken = true;
  ++zone.failures;
}

void Allocator::Canceled(std::uint32_t index, std::uint64_t size) {
  zones_[index].in_flight -= size;
}

void Allocator::Refused(std::uint32_t index, std::uint64_t size) {
  const ZoneSpace& zone = zones_[index];
  Canceled(index, size);
  if (zone.written == 0) {
    if (zone.shared_by == Cause::kWal) --log_zones_;
    Settled(index, After::kClosed);
  }
  refused_ = true;
}

void Allocator::Settled(std::uint32_t index, After after) {
  ZoneSpace& zone = zones_[index];
  zone.broken = true;
  if (after == After::kLost) {
    Retire(index);
    EndActive(&zone);
  } else if (after == After::kClosed) {
    MakeFull(&zone);
  } else {
    zone.use = ZoneUse::kActive;
  }
}

void Allocator::FillIfFull(std::uint32_t index) {
  ZoneSpace& zone = zones_[index];
  if (zone.use != ZoneUse::kActive || zone.in_flight != 0) return;
  if (zone.capacity - zone.written < block_size_) MakeFull(&zone);
}

void Allocator::MakeFull(ZoneSpace* zone) {
  Detach(zone);
  EndActive(zone);
  zone->use = ZoneUse::kFull;
}

void Allocator::EndActive(ZoneSpace* zone) {
  if (std::exchange(zone->active, false)) refused_ = false;
}

// Removes the zone from its writer and from its shared cause.
void Allocator::Detach(ZoneSpace* zone) {
  if (zone->owner != 0) writers_.at(zone->owner).zone.reset();
  zone->owner = 0;
  if (zone->shared_by) current_.erase(*zone->shared_by);
  zone->shared_by.reset();
}

std::optional<std::uint32_t> Allocator::Leave(std::uint64_t writer, bool finish) {
  const auto left = writers_.extract(writer);
  if (left.empty() || !left.mapped().zone) return std::nullopt;
  const std::uint32_t index = *left.mapped().zone;
  ZoneSpace& zone = zones_[index];
  zone.owner = 0;
  if (!Writable(zone) || zone.in_flight != 0) return std::nullopt;
  if (!finish && zone.room() * 100 >= zone.capacity * policy_.finish_remaining_pct) {
    return std::nullopt;
  }
  zone.use = ZoneUse::kFinishing;
  return index;
}

void Allocator::Finished(std::uint32_t index) {
  assert(zones_[index].use == ZoneUse::kFinishing);
  MakeFull(&zones_[index]);
}

void Allocator::Freed(std::uint32_t index, const Kept& kept, bool released) {
  zones_[index].kept -= kept;
  if (released) zones_[index].released -= kept;
}

std::vector<std::uint32_t> Allocator::Resettable(bool hard) const {
  std::vector<std::uint32_t> zones;
  for (std::uint32_t i = 0; i < zone_count(); ++i) {
    const ZoneSpace& zone = zones_[i];
    if (zone.kept.held != 0 || zone.in_flight != 0) continue;
    const bool idle = zone.use == ZoneUse::kActive && zone.written > 0 && zone.owner == 0;
    if (zone.use == ZoneUse::kFull || (idle && (zone.broken || (hard && !zone.shared_by)))) {
      zones.push_back(i);
    }
  }
  return zones;
}

void Allocator::BeginReset(std::uint32_t index) {
  ZoneSpace& zone = zones_[index];
  assert(zone.kept.held == 0 && zone.in_flight == 0);
  Detach(&zone);
  zone.use = ZoneUse::kResetting;  // an active zone stays active until ResetDone
  ++resetting_;
}

void Allocator::ResetDone(std::uint32_t index) {
  ZoneSpace& zone = zones_[index];
  assert(zone.use == ZoneUse::kResetting);
  const std::uint8_t failures = zone.failures;
  EndActive(&zone);
  zone = {.capacity = zone.capacity, .failures = failures};
  --resetting_;
  ++empty_;
  if (failures >= kMostFailures) Retire(index);
}

void Allocator::Retire(std::uint32_t index) {
  ZoneSpace& zone = zones_[index];
  Detach(&zone);  // an active zone stays active on the device
  if (zone.use == ZoneUse::kEmpty) --empty_;
  if (zone.use == ZoneUse::kResetting) --resetting_;
  zone.use = ZoneUse::kUnusable;
}

std::optional<std::uint32_t> Allocator::PickVictim() const {
  std::optional<std::uint32_t> best;
  double most = 0;
  for (std::uint32_t i = 0; i < zone_count(); ++i) {
    const ZoneSpace& zone = zones_[i];
    if (zone.use != ZoneUse::kFull || zone.unreadable) continue;
    Kept kept = zone.kept;
    if (skip_released_) kept -= zone.released;
    if (kept.held == 0) continue;  // the next commit frees the zone without a copy
    const std::uint64_t gain = zone.capacity - kept.packed;
    if (gain < zone.capacity / kMinGain || gain < block_size_) continue;
    const double used = static_cast<double>(kept.packed) / static_cast<double>(zone.capacity);
    const double score =
        Score(Victim{policy_.gc_victim}, used, static_cast<double>(clock_ - zone.last_write + 1));
    if (!best || score > most) std::tie(best, most) = std::make_pair(i, score);
  }
  return best;
}

}  // namespace zlfs
