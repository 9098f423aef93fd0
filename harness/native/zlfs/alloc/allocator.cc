#include "zlfs/alloc/allocator.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace zlfs {
namespace {

// Empty zones that flushes leave: one for the collector, one for the MANIFEST.
constexpr std::uint32_t kFlushKeeps = 2;
// More that all but flushes leave: one for the WAL that a database begins when it is opened, one
// for what tables are larger by than WALs.
constexpr std::uint32_t kOpeningKeeps = 2;
// One zone in so many, but at least this many, are left to compactions and to the deletions of a
// full database when WALs get none any more.
constexpr std::uint32_t kSpareShare = 100;
constexpr std::uint32_t kLeastSpare = 2;
// Collecting begins this many empty zones before writes have to wait for it.
constexpr std::uint32_t kCollectAhead = 2;
// A victim has to gain at least a 32nd of its zone: collecting nearly full zones moves 31 bytes to
// gain one, and the device is as good as full.
constexpr std::uint64_t kMinGain = 32;

int Distance(std::uint8_t a, std::uint8_t b) { return a > b ? a - b : b - a; }

}  // namespace

Allocator::Allocator(AllocatorSetup setup)
    : policy_(setup.policy),
      block_size_(setup.block_size),
      active_budget_(setup.active_budget),
      zones_(std::move(setup.zones)),
      log_bytes_(setup.log_bytes) {
  std::uint32_t usable = 0;
  for (ZoneSpace& zone : zones_) {
    if (zone.use == ZoneUse::kUnusable) continue;
    capacity_ = usable++ == 0 ? zone.capacity : std::min(capacity_, zone.capacity);
    if (zone.use == ZoneUse::kEmpty) ++empty_;
    SetActive(&zone, zone.use == ZoneUse::kActive);
  }
  spare_ = std::max(kLeastSpare, usable / kSpareShare);
  gc_start_ = usable * policy_.gc_start_pct / 100;
}

// Opening a database flushes all WALs and begins a new one, so everything else leaves the zones
// that this takes. Tables are larger than what the WALs held, by indexes and filters.
std::uint32_t Allocator::KeepsWithLogs(std::uint64_t room) const {
  const std::uint64_t content = log_bytes_ + room;
  const std::uint64_t to_flush = (content + content / 8 + capacity_ - 1) / capacity_;
  return kFlushKeeps + kOpeningKeeps + static_cast<std::uint32_t>(to_flush);
}

std::uint32_t Allocator::Keeps(Urgency urgency) const {
  // What the first WAL zone of a mount holds finds room in kOpeningKeeps.
  const auto& log = current_[static_cast<std::size_t>(Stream::kLog)];
  const bool counts = log && log_zones_ > 1;
  const std::uint64_t room = counts ? zones_[*log].capacity - zones_[*log].written : 0;
  switch (urgency) {
    case Urgency::kCollector:
      return 0;
    case Urgency::kManifest:
      return 1;
    case Urgency::kFlush:
      return log_zones_ == 0 ? kFlushKeeps : KeepsWithLogs(room);
    case Urgency::kOrdinary:
      return KeepsWithLogs(room);
    case Urgency::kGrowth:
      if (log_zones_ > 0) return KeepsWithLogs(room + capacity_) + spare_;
      // The WAL that a database begins while it is opened, before it deletes the old ones; or the
      // one in which a full database says what it deletes.
      return log_bytes_ > 0 ? kFlushKeeps : KeepsWithLogs(0);
  }
  return 0;
}

bool Allocator::LowSpace() const {
  return empty_ < std::max(gc_start_, kept_zones() + kCollectAhead);
}

bool Allocator::Writable(const ZoneSpace& zone) const {
  return zone.use == ZoneUse::kActive && !zone.broken && zone.room() >= block_size_;
}

bool Allocator::MayOpen(Stream stream) const {
  if (active_budget_ == 0) return true;
  if (stream != Stream::kData) return active_ < active_budget_;
  const auto waiting =
      static_cast<std::uint32_t>(std::count(current_.begin(), current_.end(), std::nullopt));
  return active_ + waiting < active_budget_;
}

std::uint32_t Allocator::OpenEmpty(std::uint8_t lifetime) {
  assert(empty_ > 0);
  while (zones_[cursor_].use != ZoneUse::kEmpty) cursor_ = (cursor_ + 1) % zone_count();
  ZoneSpace& zone = zones_[cursor_];
  zone.use = ZoneUse::kActive;
  zone.lifetime = lifetime;
  zone.opened = clock_;
  SetActive(&zone, true);
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

Decision Allocator::Allocate(const Request& request) {
  Request asked = request;
  if (!policy_.lifetimes) asked.lifetime = 0;
  return asked.stream == Stream::kData ? AllocateData(asked) : AllocateShared(asked);
}

Decision Allocator::AllocateShared(const Request& request) {
  auto& current = current_[static_cast<std::size_t>(request.stream)];
  if (current && !Writable(zones_[*current])) {
    zones_[*current].stream.reset();
    current.reset();
  }
  if (!current) {
    std::optional<std::uint32_t> taken;
    const bool space = empty_ > Keeps(request.urgency);
    if (space && MayOpen(request.stream)) {
      taken = OpenEmpty(request.lifetime);
    } else {
      // After a mount all active zones may be other streams' leftovers, or data's by now.
      taken = NearestActive(request.lifetime, Of::kUnowned);
      if (!taken) taken = NearestActive(request.lifetime, Of::kIdle);
      const bool log = request.stream == Stream::kLog;
      if (log && taken && log_zones_ > 0 && empty_ < KeepsWithLogs(zones_[*taken].room())) {
        taken.reset();
      }
    }
    if (!taken) return WaitOrNoSpace(space);
    if (request.stream == Stream::kLog) ++log_zones_;
    owned_.erase(zones_[*taken].owner);
    zones_[*taken].owner = 0;
    current = taken;
    zones_[*taken].stream = request.stream;
  }
  return Grant(*current, request.size);
}

Decision Allocator::AllocateData(const Request& request) {
  jobs_[request.writer] = request.job;
  if (const auto own = owned_.find(request.writer); own != owned_.end()) {
    if (Writable(zones_[own->second])) return Grant(own->second, request.size);
    zones_[own->second].owner = 0;
    owned_.erase(own);
  }
  const auto take = [this, &request](std::uint32_t index) {
    ZoneSpace& zone = zones_[index];
    if (zone.owner == 0) {
      zone.owner = request.writer;
      owned_[request.writer] = index;
    }
    return Grant(index, request.size);
  };
  if (const auto same = SameLifetime(request.lifetime)) return take(*same);
  const bool space = empty_ > Keeps(request.urgency);
  if (space && MayOpen(Stream::kData)) return take(OpenEmpty(request.lifetime));
  if (space) {
    if (policy_.on_active_limit == OnActiveLimit::kFinish) {
      if (const auto fullest = TakeFullest()) {
        return {.kind = Decision::Kind::kFinish, .zone = *fullest};
      }
    }
    const bool waits = policy_.on_active_limit == OnActiveLimit::kWait;
    if (waits && request.job != Job::kCompaction && CompactionsOwn()) {
      return {.kind = Decision::Kind::kWait};
    }
  }
  if (const auto unowned = NearestActive(request.lifetime, Of::kUnowned)) return take(*unowned);
  if (const auto any = NearestActive(request.lifetime, Of::kAny)) return take(*any);
  return WaitOrNoSpace(space);
}

Decision Allocator::WaitOrNoSpace(bool space) const {
  if (!space) return {};
  // Zones that were granted to their last block stay active until that is written.
  const bool soon = std::any_of(zones_.begin(), zones_.end(), [](const ZoneSpace& zone) {
    return zone.active && (zone.in_flight != 0 || zone.use == ZoneUse::kFinishing ||
                           zone.use == ZoneUse::kResetting);
  });
  return {.kind = soon ? Decision::Kind::kWait : Decision::Kind::kNoSpace};
}

bool Allocator::CompactionsOwn() const {
  return std::any_of(owned_.begin(), owned_.end(),
                     [this](const auto& own) { return jobs_.at(own.first) == Job::kCompaction; });
}

bool Allocator::JobsWrite() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const auto& job) { return job.second != Job::kNone; });
}

std::optional<std::uint32_t> Allocator::NearestActive(std::uint8_t lifetime, Of of) const {
  std::optional<std::uint32_t> best;
  std::tuple<int, std::uint64_t> least;
  for (std::uint32_t i = 0; i < zone_count(); ++i) {
    const ZoneSpace& zone = zones_[i];
    if (!Writable(zone) || zone.stream) continue;
    if (of == Of::kUnowned && zone.owner != 0) continue;
    if (of != Of::kAny && zone.in_flight != 0) continue;
    const std::tuple<int, std::uint64_t> key{Distance(zone.lifetime, lifetime), zone.room()};
    if (!best || key < least) std::tie(best, least) = std::make_pair(i, key);
  }
  return best;
}

std::optional<std::uint32_t> Allocator::SameLifetime(std::uint8_t lifetime) const {
  const auto nearest = NearestActive(lifetime, Of::kUnowned);
  if (nearest && zones_[*nearest].lifetime == lifetime) return nearest;
  return std::nullopt;
}

std::optional<std::uint32_t> Allocator::TakeFullest(const std::vector<bool>& spared) {
  std::optional<std::uint32_t> best;
  for (std::uint32_t i = 0; i < zone_count(); ++i) {
    const ZoneSpace& zone = zones_[i];
    if (!spared.empty() && spared[i]) continue;
    if (!Writable(zone) || zone.stream || zone.owner != 0 || zone.in_flight != 0) continue;
    if (!best || zone.room() < zones_[*best].room()) best = i;
  }
  if (best) zones_[*best].use = ZoneUse::kFinishing;
  return best;
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
  zone.broken = true;
  FillIfFull(index);
}

void Allocator::FillIfFull(std::uint32_t index) {
  ZoneSpace& zone = zones_[index];
  if (zone.use != ZoneUse::kActive || zone.in_flight != 0) return;
  if (zone.capacity - zone.written < block_size_) MakeFull(&zone);
}

void Allocator::MakeFull(ZoneSpace* zone) {
  Detach(zone);
  SetActive(zone, false);
  zone->use = ZoneUse::kFull;
}

// The zone takes no more writes: nobody's zone any longer.
void Allocator::Detach(ZoneSpace* zone) {
  if (zone->owner != 0) owned_.erase(zone->owner);
  zone->owner = 0;
  if (zone->stream) current_[static_cast<std::size_t>(*zone->stream)].reset();
  zone->stream.reset();
}

void Allocator::SetActive(ZoneSpace* zone, bool active) {
  if (active && !zone->active) ++active_;
  if (!active && zone->active) --active_;
  zone->active = active;
}

std::optional<std::uint32_t> Allocator::Leave(std::uint64_t writer, bool finish) {
  jobs_.erase(writer);
  const auto own = owned_.find(writer);
  if (own == owned_.end()) return std::nullopt;
  const std::uint32_t index = own->second;
  ZoneSpace& zone = zones_[index];
  owned_.erase(own);
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

void Allocator::Freed(std::uint32_t index, const Kept& kept) { zones_[index].kept -= kept; }

std::vector<std::uint32_t> Allocator::Resettable(bool hard) const {
  std::vector<std::uint32_t> zones;
  for (std::uint32_t i = 0; i < zone_count(); ++i) {
    const ZoneSpace& zone = zones_[i];
    if (zone.kept.held != 0 || zone.in_flight != 0) continue;
    const bool idle = zone.use == ZoneUse::kActive && zone.written > 0 && zone.owner == 0;
    if (zone.use == ZoneUse::kFull || (idle && (zone.broken || (hard && !zone.stream)))) {
      zones.push_back(i);
    }
  }
  return zones;
}

void Allocator::BeginReset(std::uint32_t index) {
  ZoneSpace& zone = zones_[index];
  assert(zone.kept.held == 0 && zone.in_flight == 0);
  Detach(&zone);
  zone.use = ZoneUse::kResetting;  // an active zone stays active until the reset is done
}

void Allocator::ResetDone(std::uint32_t index) {
  ZoneSpace& zone = zones_[index];
  assert(zone.use == ZoneUse::kResetting);
  SetActive(&zone, false);
  zone = {.capacity = zone.capacity};
  ++empty_;
}

void Allocator::Retire(std::uint32_t index) {
  ZoneSpace& zone = zones_[index];
  Detach(&zone);  // an active one stays so on the device
  if (zone.use == ZoneUse::kEmpty) --empty_;
  zone.use = ZoneUse::kUnusable;
}

std::optional<std::uint32_t> Allocator::PickVictim() const {
  std::optional<std::uint32_t> best;
  double most = 0;
  for (std::uint32_t i = 0; i < zone_count(); ++i) {
    const ZoneSpace& zone = zones_[i];
    if (zone.use != ZoneUse::kFull || zone.kept.held == 0) continue;
    const std::uint64_t gain = zone.capacity - zone.kept.packed;
    if (gain < zone.capacity / kMinGain || gain < block_size_) continue;
    const double used = static_cast<double>(zone.kept.packed) / static_cast<double>(zone.capacity);
    double score = 1 - used;
    if (policy_.gc_victim == Victim::kCostBenefit) {
      score = (1 - used) / (1 + used) * static_cast<double>(clock_ - zone.last_write + 1);
    }
    if (!best || score > most) std::tie(best, most) = std::make_pair(i, score);
  }
  return best;
}

}  // namespace zlfs
