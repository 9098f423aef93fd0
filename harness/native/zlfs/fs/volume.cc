// Mounting, file names, and their metadata records.

#include "zlfs/fs/volume.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace zlfs {
namespace {

// Reads of one batch that a device gets at a time, besides the one of the calling thread.
constexpr std::size_t kReadThreads = 15;

// More than the roll-overs of a generation that a repair gives up.
constexpr std::uint64_t kRepairedGenerations = 1 << 20;

bool IsNamed(const IOStatus& status, std::string_view name) {
  return status.getState() != nullptr && std::string_view(status.getState()).starts_with(name);
}

IOStatus Missing(const std::string& name) { return IOStatus::PathNotFound("no such file", name); }

// Returns the limit of active data zones: the lowest limit minus the metadata zones. 0: no limit.
std::uint32_t ActiveBudget(const Geometry& geometry, const Policy& policy) {
  std::uint32_t lowest = 0;
  for (const std::uint32_t limit :
       {geometry.max_active, geometry.max_open, std::uint32_t{policy.max_active}}) {
    if (limit != 0 && (lowest == 0 || limit < lowest)) lowest = limit;
  }
  // A read-only mount does not check the device, so the limit can be below the minimum.
  return lowest == 0 ? 0 : std::max(lowest, kMinActiveZones) - kMetadataActive;
}

ZoneUse UseOf(ZoneCondition condition) {
  if (condition == ZoneCondition::kEmpty) return ZoneUse::kEmpty;
  if (condition == ZoneCondition::kFull) return ZoneUse::kFull;
  return IsActive(condition) ? ZoneUse::kActive : ZoneUse::kUnusable;
}

}  // namespace

Volume::Volume(std::unique_ptr<ZonedDevice> device, const MountOptions& options)
    : device_(std::move(device)),
      read_only_(options.read_only ? "mounted to read" : ""),
      salvage_(options.salvage),
      patience_(options.patience),
      io_(device_.get()),
      read_pool_(kReadThreads),
      zone_locks_(device_->geometry().zone_count),
      pins_(device_->geometry().zone_count),
      resetter_(device_->geometry().waits, [this](std::uint32_t zone) { ResetZone(zone); }) {}

Volume::~Volume() { Close().PermitUncheckedError(); }

IOStatus Volume::Mount(std::unique_ptr<ZonedDevice> device, const MountOptions& options,
                       std::unique_ptr<Volume>* volume) {
  Recovered recovered;
  if (!options.read_only) RETURN_IF_ERROR(CheckDevice(device.get(), &recovered.zones));
  const Effort effort = options.salvage ? Effort::kSalvage : Effort::kExact;
  RETURN_IF_ERROR(Recover(device.get(), &recovered, effort));
  RETURN_IF_ERROR(ChangePolicy(options.policy, &recovered.superblock.policy));
  std::unique_ptr<Volume> mounted(new Volume(std::move(device), options));
  if (!options.trace_path.empty())
    RETURN_IF_ERROR(mounted->trace_.Open(options.trace_path, options.trace_reads));
  RETURN_IF_ERROR(mounted->Load(std::move(recovered)));
  if (!options.ledger_path.empty() && !options.read_only) {
    mounted->ledger_.open(options.ledger_path, std::ios::app);
    if (!mounted->ledger_) {
      return IOStatus::IOError("ledger", options.ledger_path + ": " + std::strerror(errno));
    }
    mounted->ledger_thread_ = std::jthread(std::bind_front(&Volume::KeepLedger, mounted.get()));
  }
  *volume = std::move(mounted);
  return IOStatus::OK();
}

IOStatus Volume::Load(Recovered recovered) {
  superblock_ = recovered.superblock;
  losses_ = recovered.losses;
  // A generation that cannot be read now must stay older if it can be read later.
  if (salvage_) superblock_.generation += kRepairedGenerations;
  piece_number_ = recovered.last_piece;
  space_ = std::move(recovered.space);
  space_.gone = [this](const std::shared_ptr<File>& file) { Forget(file); };
  const Geometry& geometry = device_->geometry();
  AllocatorSetup setup{.policy = superblock_.policy,
                       .block_size = geometry.block_size,
                       .active_budget = ActiveBudget(geometry, superblock_.policy)};
  for (const ZoneInfo& info : recovered.zones) {
    const bool metadata = setup.zones.size() < kMetadataZones;
    setup.zones.push_back({.capacity = info.capacity,
                           .written = info.write_pointer,
                           .use = metadata ? ZoneUse::kUnusable : UseOf(info.condition)});
  }
  for (const std::uint32_t zone : recovered.kept_logs) {
    setup.zones[zone].use = ZoneUse::kUnusable;
    log_zones_[zone] = {.offset = space_.log_zones.at(zone)};
  }
  for (const auto& [id, file] : space_.files) {
    file->recorded = file->size;
    if (!file->lost_zone) file->log_zones.clear();  // the snapshot describes all content
    for (const Extent& extent : file->extents) {
      ZoneSpace& zone = setup.zones[extent.zone];
      zone.kept += KeptBy(extent, geometry.block_size);
      zone.lifetime = std::max(zone.lifetime, file->lifetime);
    }
    if (file->kind == FileKind::kLog) setup.log_bytes += file->size;
  }
  trace_.Add(
      MountEvent{.block_size = setup.block_size,
                 .active_budget = setup.active_budget,
                 .policy = {reinterpret_cast<const char*>(&superblock_.policy), sizeof(Policy)}});
  for (const ZoneSpace& zone : setup.zones) {
    trace_.Add(ZoneEvent{zone.capacity, zone.written, static_cast<std::uint8_t>(zone.use)});
  }
  for (const auto& [id, file] : space_.files) {
    trace_.Add(FileEvent{id, file->kind, file->lifetime, file->extents});
  }
  allocator_ = std::make_unique<Allocator>(std::move(setup));
  if (read_only()) return IOStatus::OK();
  const IOStatus status = BeginLog(recovered);
  if (!IsNamed(status, "no-metadata-zone")) return status;
  read_only_ = status.getState();
  log_ = nullptr;
  return IOStatus::OK();
}

IOStatus Volume::CheckWritable() const {
  return read_only() ? IOStatus::NotSupported("read-only", read_only_) : IOStatus::OK();
}

IOStatus Volume::BeginLog(const Recovered& recovered) {
  // The previous mount may not have flushed the data that recovery read.
  RETURN_IF_ERROR(io_.Flush());
  const std::uint32_t current = recovered.metadata_zone;
  std::uint64_t capacity = recovered.zones[current].capacity;
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    // Only a remainder of a roll-over is there. If the reset fails, another zone takes its turn.
    if (zone != current && recovered.zones[zone].write_pointer != 0) {
      io_.Reset(zone, true).PermitUncheckedError();
    }
    capacity = std::min(capacity, recovered.zones[zone].capacity);
  }
  for (const std::uint32_t zone : recovered.kept_logs) {
    // The allocator does not know these zones, so none of them may stay active.
    const ZoneInfo& info = recovered.zones[zone];
    if (!IsActive(info.condition)) continue;
    io_.Finish(FinishCause::kActiveLimit, zone, info.capacity - info.write_pointer)
        .PermitUncheckedError();
  }
  RETURN_IF_ERROR(LimitActive(recovered));
  log_ = std::make_unique<MetaLog>(
      &io_, &state_, [this](std::vector<Record>* records) { Describe(records); }, superblock_,
      current, recovered.last_frame, capacity);
  RETURN_IF_ERROR(log_->RollOver());
  return Reclaim(true);
}

// Frees active zones so that the log can roll over. A mount can find too many active zones: a power
// loss reactivates zones that were filled since the last flush, and a device can lower its limits.
// The steps, in order of increasing harm:
// 1. Reset zones without live data.
// 2. Finish data zones that are not fragile.
// 3. Finish the metadata zone, which is reset soon anyway.
// 4. Finish fragile zones. If the mount is interrupted, recovery needs their write pointers again.
IOStatus Volume::LimitActive(const Recovered& recovered) {
  const std::uint32_t budget = ActiveBudget(io_.geometry(), superblock_.policy);
  const std::uint32_t metadata = recovered.metadata_zone;
  const ZoneInfo& info = recovered.zones[metadata];
  bool metadata_active = IsActive(info.condition);
  // The budget reserves two zones for the metadata log: the current one and the next generation.
  const auto exceeded = [this, budget, &metadata_active] {
    return budget != 0 && allocator_->active_zones() + metadata_active > budget + 1;
  };
  if (!exceeded()) return IOStatus::OK();
  for (const std::uint32_t zone : allocator_->Resettable(true)) {
    allocator_->BeginReset(zone);
    trace_.Add(Step::kReset, zone);
    ResetZone(zone);
  }
  std::vector<bool> spared = recovered.fragile;
  while (exceeded()) {
    if (const auto zone = allocator_->TakeFullest(spared)) {
      trace_.Add(Step::kTrouble, *zone);
      FinishZone(*zone, FinishCause::kActiveLimit);
    } else if (metadata_active) {
      metadata_active = false;
      // If the zone cannot be finished, the roll-over tells whether the device takes one more.
      io_.Finish(FinishCause::kMetadata, metadata, info.capacity - info.write_pointer)
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
  const IOStatus status = log_ == nullptr ? IOStatus::OK() : EndLog();
  resetter_.Drain();    // also after an error: the last line of the ledger has every reset
  ledger_thread_ = {};  // stops and joins the thread
  if (ledger_.is_open() || trace_.on()) {
    const std::string line = LedgerLine("close");
    ledger_ << line << std::endl;
    if (trace_.on()) trace_.End(line);
  }
  return status;
}

IOStatus Volume::EndLog() {
  RETURN_IF_ERROR(log_->Commit(log_->appended()));
  RETURN_IF_ERROR(Reclaim(true));
  std::unique_lock lock(state_);
  const std::uint64_t position = log_->Append(SinceMkfs());
  lock.unlock();
  return log_->Commit(position);
}

void Volume::Describe(std::vector<Record>* records) {
  records->emplace_back(StateRecord{.next_file = space_.next_file});
  records->emplace_back(SinceMkfs());
  for (const auto& [name, file] : space_.names) {
    records->emplace_back(CreateRecord{
        .file = file->id, .kind = file->kind, .modified = file->modified, .name = name});
    if (file->recorded > 0) records->emplace_back(RecordOf(*file, 0));
  }
  for (const auto& [zone, log_zone] : log_zones_) {
    if (log_zone.end == 0) {
      records->emplace_back(LogZoneRecord{.zone = zone, .offset = log_zone.offset});
    }
  }
  for (const auto& [name, file] : space_.names) {
    for (const std::uint32_t zone : file->log_zones) {
      if (log_zones_.at(zone).end == 0) records->emplace_back(LogFileRecord{file->id, zone});
    }
  }
}

std::uint64_t Volume::Change(const Record& record) {
  const std::uint64_t position = log_->Append(record);
  space_.Apply(record, 0).PermitUncheckedError();  // callers ensure that the record is valid
  return position;
}

IOStatus Volume::Create(const std::string& name, FileKind kind, std::shared_ptr<File>* file) {
  RETURN_IF_ERROR(CheckWritable());
  if (!IsCanonical(name)) return IOStatus::InvalidArgument("bad-name", name);
  file->reset();
  const std::lock_guard lock(state_);
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  const std::uint64_t position =
      Change(CreateRecord{.file = space_.next_file, .kind = kind, .modified = now, .name = name});
  *file = Handle(space_.names.at(name));
  (*file)->position = position;
  return IOStatus::OK();
}

IOStatus Volume::Open(const std::string& name, std::shared_ptr<File>* file) {
  file->reset();
  const std::lock_guard lock(state_);
  const auto entry = space_.names.find(name);
  if (entry == space_.names.end()) return Missing(name);
  *file = Handle(entry->second);
  return IOStatus::OK();
}

std::shared_ptr<File> Volume::Handle(const std::shared_ptr<File>& file) {
  ++file->handles;
  return {file.get(), [this, file](File*) {
            const std::lock_guard lock(state_);
            --file->handles;
            if (file->deleted) Forget(file);
          }};
}

void Volume::Forget(const std::shared_ptr<File>& file) {
  if (file->kind == FileKind::kLog && !file->deleted) allocator_->LogsShrank(file->size);
  if (!std::exchange(file->deleted, true)) trace_.Add(Step::kDeleted, file->id);
  if (file->handles > 0) return;
  trace_.Add(Step::kGone, file->id, file->extents.empty() ? 0 : 1);
  ForgetMap(file.get());
  if (!file->extents.empty()) {
    FreeLater(std::move(file->extents));
    ++returns_;
    changed_.notify_all();
  }
  space_.files.erase(file->id);
}

IOStatus Volume::Delete(const std::string& name) {
  RETURN_IF_ERROR(CheckWritable());
  const std::lock_guard lock(state_);
  const auto entry = space_.names.find(name);
  if (entry == space_.names.end()) return Missing(name);
  Change(DeleteRecord{.file = entry->second->id});
  return IOStatus::OK();
}

IOStatus Volume::Rename(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(CheckWritable());
  if (!IsCanonical(to)) return IOStatus::InvalidArgument("bad-name", to);
  const std::lock_guard lock(state_);
  const auto entry = space_.names.find(from);
  if (entry == space_.names.end()) return Missing(from);
  const std::shared_ptr<File> file = entry->second;
  if (from != to) file->position = Change(RenameRecord{.file = file->id, .name = to});
  return IOStatus::OK();
}

IOStatus Volume::RenameDirectory(const std::string& from, const std::string& to) {
  if (!HasFilesBelow(from)) return IOStatus::OK();
  RETURN_IF_ERROR(CheckWritable());
  const std::lock_guard lock(state_);
  const std::uint64_t position = Change(RenameDirRecord{.from = from, .to = to});
  for (const auto& [name, file] : space_.names) {
    if (name.starts_with(to + "/")) file->position = position;
  }
  return IOStatus::OK();
}

bool Volume::Exists(const std::string& name) {
  const std::lock_guard lock(state_);
  return space_.names.contains(name);
}

std::vector<std::string> Volume::List(const std::string& directory) {
  const std::string prefix = directory == "/" ? directory : directory + "/";
  std::vector<std::string> names;
  const std::lock_guard lock(state_);
  for (auto entry = space_.names.lower_bound(prefix);
       entry != space_.names.end() && entry->first.starts_with(prefix); ++entry) {
    std::string rest = entry->first.substr(prefix.size());
    if (rest.find('/') == std::string::npos) names.push_back(std::move(rest));
  }
  return names;
}

bool Volume::HasFilesBelow(const std::string& directory) {
  const std::lock_guard lock(state_);
  const auto entry = space_.names.lower_bound(directory + "/");
  return entry != space_.names.end() && entry->first.starts_with(directory + "/");
}

IOStatus Volume::SyncNames() {
  if (read_only()) return IOStatus::OK();
  const std::uint64_t begin = AllocationTrace::Now();
  const std::uint64_t position = log_->appended();
  const bool writes = position > log_->durable();
  const IOStatus status = Commit(position);
  trace_.AddSync(0, writes, begin);
  return status;
}

void Volume::RecordFrom(File* file, std::uint64_t from) {
  if (from == file->size) return;
  file->recorded = file->size;
  if (!file->deleted) file->position = log_->Append(RecordOf(*file, from));
}

std::vector<FileInfo> Volume::Files() {
  std::vector<FileInfo> files;
  const std::lock_guard lock(state_);
  for (const auto& [name, file] : space_.names) files.push_back(*file);
  return files;
}

}  // namespace zlfs
