// Mount and end of a volume.

#include "zlfs/fs/volume.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>

namespace zlfs {
namespace {

// Returns how many data zones may be active: the lowest limit, less the zones of the metadata log.
// 0: no limit.
std::uint32_t ActiveBudget(const Geometry& geometry, const Policy& policy) {
  std::uint32_t lowest = 0;
  for (const std::uint32_t limit :
       {geometry.max_active, geometry.max_open, std::uint32_t{policy.max_active}}) {
    if (limit != 0 && (lowest == 0 || limit < lowest)) lowest = limit;
  }
  // A read-only mount accepts limits below the minimum.
  return lowest == 0 ? 0 : std::max(lowest, kMinActiveZones) - kMetadataActive;
}

ZoneUse UseOf(ZoneCondition condition) {
  if (condition == ZoneCondition::kEmpty) return ZoneUse::kEmpty;
  if (condition == ZoneCondition::kFull) return ZoneUse::kFull;
  return IsActive(condition) ? ZoneUse::kActive : ZoneUse::kUnusable;
}

}  // namespace

Volume::Volume(std::unique_ptr<ZonedDevice> device, const MountOptions& options)
    : salvage_(options.salvage),
      state_(std::move(device)),
      log_zones_(&state_),
      commands_(&state_, &log_zones_),
      reader_(&state_),
      reclaimer_(&state_, &commands_, &log_zones_, &reader_),
      files_(&state_, &reclaimer_),
      collector_(&state_, &commands_, &reclaimer_, &reader_, &files_),
      writer_(&state_, &commands_, &log_zones_, &reclaimer_, &files_, &collector_, &tails_,
              options.patience),
      ledger_(&state_, &commands_, &collector_) {
  if (options.read_only) state_.read_only = "mounted to read";
}

Volume::~Volume() { Close().PermitUncheckedError(); }

IOStatus Volume::Mount(std::unique_ptr<ZonedDevice> device, const MountOptions& options,
                       std::unique_ptr<Volume>* volume) {
  Recovered recovered;
  const Effort effort = options.salvage ? Effort::kSalvage : Effort::kExact;
  const IOStatus found = Recover(device.get(), &recovered, effort);
  // A device that mkfs refuses is empty, too. The reason of mkfs is more precise.
  if (IsNamed(found, "wrong-magic") && !options.read_only) {
    RETURN_IF_ERROR(CheckDevice(device.get(), &recovered.zones));
  }
  RETURN_IF_ERROR(found);
  RETURN_IF_ERROR(ChangePolicy(options.policy, &recovered.superblock.policy));
  std::unique_ptr<Volume> mounted(new Volume(std::move(device), options));
  mounted->tails_.Begin(options.tails_path, recovered.superblock.volume);
  if (!options.trace_path.empty())
    RETURN_IF_ERROR(mounted->state_.trace.Open(options.trace_path, options.trace_reads));
  RETURN_IF_ERROR(mounted->Load(std::move(recovered)));
  if (!options.ledger_path.empty() && !options.read_only)
    RETURN_IF_ERROR(mounted->ledger_.Open(options.ledger_path, options.ledger_interval));
  *volume = std::move(mounted);
  return IOStatus::OK();
}

IOStatus Volume::Load(Recovered recovered) {
  state_.superblock = recovered.superblock;
  losses_ = recovered.losses;
  if (salvage_) state_.superblock.generation += kSkippedGenerations;
  commands_.BeginPieces(recovered.last_piece);
  for (const std::uint32_t zone : recovered.kept_logs) {
    log_zones_.Keep(zone, recovered.space.log_zones.at(zone));
  }
  files_.Load(std::move(recovered.space));
  RETURN_IF_ERROR(LoadTails());
  AllocatorSetup setup = SetupOf(recovered);
  TraceSetup(setup);
  state_.allocator = std::make_unique<Allocator>(std::move(setup));
  if (read_only()) return IOStatus::OK();
  const IOStatus begun = BeginLog(recovered);
  if (begun.ok()) return begun;
  // The recovered state can still be read: BeginLog changes no content of files. Without a log,
  // Close writes no tails.
  state_.log = nullptr;
  state_.read_only = begun.getState() == nullptr ? begun.ToString() : begun.getState();
  return IOStatus::OK();
}

// Loads the ends of WALs that a killed process saved. Their files stay until a mount finds that
// RocksDB has deleted the WALs: another kill can come before the ends are on the device.
IOStatus Volume::LoadTails() {
  std::set<std::uint64_t> logs;
  for (const auto& [id, file] : state_.space.files) {
    if (file->kind != FileKind::kLog) continue;
    logs.insert(id);
    std::string tail;
    // A zone of the WAL that cannot be read now may hold more than the saved tail.
    if (!file->lost_zone) RETURN_IF_ERROR(tails_.Load(id, file->size, &tail));
    file->reserved_for = file->size + tail.size();
    if (tail.empty()) continue;
    file->tail = AllocateAligned(kTailBytes);
    std::memcpy(file->tail.get() + file->tail_head(), tail.data(), tail.size());
    file->tail_size = tail.size();
    file->placement = {.cause = Cause::kWal, .lifetime = file->lifetime};
  }
  if (!read_only()) tails_.Keep(logs);
  return IOStatus::OK();
}

AllocatorSetup Volume::SetupOf(const Recovered& recovered) {
  const Geometry& geometry = device()->geometry();
  const Policy& policy = state_.superblock.policy;
  AllocatorSetup setup{.policy = policy,
                       .block_size = geometry.block_size,
                       .active_budget = ActiveBudget(geometry, policy)};
  for (const ZoneInfo& info : recovered.zones) {
    const bool metadata = setup.zones.size() < kMetadataZones;
    setup.zones.push_back({.capacity = info.capacity,
                           .written = info.write_pointer,
                           .use = metadata ? ZoneUse::kUnusable : UseOf(info.condition)});
  }
  for (const std::uint32_t zone : recovered.kept_logs) {
    setup.zones[zone].use = ZoneUse::kUnusable;
  }
  for (const auto& [id, file] : state_.space.files) {
    for (const Extent& extent : file->extents) {
      ZoneSpace& zone = setup.zones[extent.zone];
      zone.kept += KeptBy(extent, geometry.block_size);
      zone.lifetime = std::max(zone.lifetime, file->lifetime);
    }
    setup.log_bytes += file->reserved_for;
  }
  return setup;
}

void Volume::TraceSetup(const AllocatorSetup& setup) {
  const Policy& policy = state_.superblock.policy;
  state_.trace.Add(MountEvent{.block_size = setup.block_size,
                              .active_budget = setup.active_budget,
                              .policy = {reinterpret_cast<const char*>(&policy), sizeof(Policy)}});
  for (const ZoneSpace& zone : setup.zones) {
    state_.trace.Add(ZoneEvent{zone.capacity, zone.written, static_cast<std::uint8_t>(zone.use)});
  }
  for (const auto& [id, file] : state_.space.files) {
    state_.trace.Add(FileEvent{id, file->kind, file->lifetime, file->extents});
  }
}

IOStatus Volume::BeginLog(const Recovered& recovered) {
  RETURN_IF_ERROR(CheckLimits(state_.io.geometry()));
  // The snapshot describes data that the previous mount may not have flushed.
  RETURN_IF_ERROR(state_.io.Flush());
  const std::vector<std::uint32_t>& copies = recovered.metadata_zones;
  const std::uint32_t budget = ActiveBudget(state_.io.geometry(), state_.superblock.policy);
  const bool all_active = budget == 0 || state_.allocator->active_zones() < budget;
  std::uint64_t capacity = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    // The zone holds no copy, but an old generation, an unfinished roll-over, or a copy that cannot
    // be read. If the reset fails, the roll-over resets it again or takes another zone.
    const bool copy = std::ranges::find(copies, zone) != copies.end();
    // Beside a single copy, an old generation stays until the roll-over needs its zone.
    const bool stays =
        all_active && copies.size() == 1 && !recovered.unreadable_metadata.contains(zone);
    if (!copy && !stays && recovered.zones[zone].write_pointer != 0) {
      state_.io.Reset(zone, true).PermitUncheckedError();
    }
    capacity = std::min(capacity, recovered.zones[zone].capacity);
  }
  for (const std::uint32_t zone : recovered.kept_logs) {
    // The allocator counts none of these zones as active, so none may stay active.
    const ZoneInfo& info = recovered.zones[zone];
    if (!IsActive(info.condition)) continue;
    state_.io.Finish(FinishCause::kActiveLimit, zone, info.capacity - info.write_pointer)
        .PermitUncheckedError();
  }
  RETURN_IF_ERROR(LimitActive(recovered));
  state_.log = std::make_unique<MetaLog>(
      &state_.io, &state_.mutex, [this](std::vector<Record>* records) { Describe(records); },
      state_.superblock, copies, recovered.last_frame, recovered.last_checksum, capacity);
  RETURN_IF_ERROR(state_.log->RollOver(all_active));
  return reclaimer_.Reclaim(Reclaiming::kAll);
}

// Frees active zones so that the log can roll over. A mount can find too many active zones: a power
// loss reactivates zones that were filled since the last flush, and a device can lower its limits.
// The steps, in order of increasing harm:
// 1. Reset zones without live data.
// 2. Finish data zones that are not fragile.
// 3. Finish the best copy of the metadata log. The roll-over resets it soon.
// 4. Finish fragile zones. If the mount is interrupted, recovery needs their write pointers again.
IOStatus Volume::LimitActive(const Recovered& recovered) {
  Allocator& allocator = *state_.allocator;
  const std::uint32_t budget = ActiveBudget(state_.io.geometry(), state_.superblock.policy);
  const std::uint32_t metadata = recovered.metadata_zones.front();
  const ZoneInfo& info = recovered.zones[metadata];
  bool metadata_active = IsActive(info.condition);
  // The budget leaves two zones to the metadata log. The roll-over keeps the best copy and opens
  // one more zone.
  const auto exceeded = [&allocator, budget, &metadata_active] {
    return budget != 0 && allocator.active_zones() + metadata_active > budget + 1;
  };
  if (!exceeded()) return IOStatus::OK();
  for (const std::uint32_t zone : allocator.Resettable(true)) {
    allocator.BeginReset(zone);
    state_.trace.Add(Step::kReset, zone);
    commands_.Reset(zone);
  }
  std::vector<bool> spared = recovered.fragile;
  while (exceeded()) {
    if (const auto zone = allocator.TakeFullest(spared)) {
      state_.trace.Add(Step::kTrouble, *zone);
      commands_.Finish(*zone, FinishCause::kActiveLimit);
    } else if (metadata_active) {
      metadata_active = false;
      // If this fails, the roll-over shows whether the device allows one more active zone.
      state_.io.Finish(FinishCause::kMetadata, metadata, info.capacity - info.write_pointer)
          .PermitUncheckedError();
    } else if (!spared.empty()) {
      spared.clear();
    } else {
      return IOStatus::InvalidArgument("limits-too-small", "too many zones are active");
    }
  }
  return IOStatus::OK();
}

IOStatus Volume::Close() {
  if (std::exchange(closed_, true)) return IOStatus::OK();
  const IOStatus status = state_.log == nullptr ? IOStatus::OK() : EndLog();
  // Also after an error: the last line of the ledger must contain every finish and reset.
  commands_.AwaitFinishes();
  reclaimer_.Drain();
  ledger_.Close();
  if (!read_only()) tails_.End();
  return status;
}

IOStatus Volume::EndLog() {
  // Includes WALs that no writer has open: their saved tails do not survive a restart of the
  // system.
  const IOStatus tails = writer_.WriteLogsBefore(std::numeric_limits<std::uint64_t>::max());
  tails.PermitUncheckedError();
  RETURN_IF_ERROR(state_.log->Commit(state_.log->appended()));
  RETURN_IF_ERROR(reclaimer_.Reclaim(Reclaiming::kAll));
  std::unique_lock lock(state_.mutex);
  const std::uint64_t position = state_.log->Append(SinceMkfs());
  lock.unlock();
  RETURN_IF_ERROR(state_.log->Commit(position));
  return tails;
}

void Volume::Describe(std::vector<Record>* records) {
  records->emplace_back(StateRecord{.next_file = state_.space.next_file});
  records->emplace_back(SinceMkfs());
  files_.Describe(records);
  log_zones_.Describe(records);
}

TotalsRecord Volume::SinceMkfs() const {
  const Totals now = totals();
  TotalsRecord all = state_.space.totals;
  all.collected_bytes += now.written[static_cast<std::size_t>(Cause::kGc)].payload;
  all.collected_zones += collector_.collected_zones();
  for (const auto& finishes : now.finishes) all.finishes += finishes.count;
  all.resets += now.resets_data + now.resets_metadata;
  return all;
}

SpaceUse Volume::Space() {
  const std::lock_guard lock(state_.mutex);
  return SpaceOf(*state_.allocator);
}

std::vector<ZoneSpace> Volume::Zones() {
  const std::lock_guard lock(state_.mutex);
  return state_.allocator->zones();
}

}  // namespace zlfs
