// Mounting, names, and the records that describe them.

#include "zlfs/fs/volume.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace zlfs {
namespace {

IOStatus Missing(const std::string& name) { return IOStatus::PathNotFound("no such file", name); }

std::uint64_t Now() { return static_cast<std::uint64_t>(std::time(nullptr)); }

// Zones that may be active for data: the device's limit less the metadata log's.
std::uint32_t ActiveBudget(const Geometry& geometry) {
  std::uint32_t limit = geometry.max_active;
  if (geometry.max_open != 0 && (limit == 0 || geometry.max_open < limit)) {
    limit = geometry.max_open;
  }
  return limit == 0 ? 0 : limit - kMetadataZones;
}

ZoneUse UseOf(ZoneCondition condition) {
  if (condition == ZoneCondition::kEmpty) return ZoneUse::kEmpty;
  if (condition == ZoneCondition::kFull) return ZoneUse::kFull;
  return IsActive(condition) ? ZoneUse::kActive : ZoneUse::kUnusable;
}

}  // namespace

Volume::Volume(std::unique_ptr<ZonedDevice> device, bool read_only)
    : device_(std::move(device)),
      read_only_(read_only),
      io_(device_.get()),
      zone_locks_(device_->geometry().zone_count),
      pins_(device_->geometry().zone_count),
      collector_(this) {}

Volume::~Volume() { Close().PermitUncheckedError(); }

IOStatus Volume::Mount(std::unique_ptr<ZonedDevice> device, const MountOptions& options,
                       std::unique_ptr<Volume>* volume) {
  if (!options.read_only) RETURN_IF_ERROR(CheckDevice(device.get()));
  Recovered recovered;
  RETURN_IF_ERROR(Recover(device.get(), &recovered));
  RETURN_IF_ERROR(ChangePolicy(options.policy, &recovered.superblock.policy));
  std::unique_ptr<Volume> mounted(new Volume(std::move(device), options.read_only));
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
  piece_number_ = recovered.last_piece;
  space_ = std::move(recovered.space);
  space_.gone = [this](const std::shared_ptr<File>& file) { Forget(file); };
  const Geometry& geometry = device_->geometry();
  std::vector<ZoneSpace> zones;
  std::uint64_t log_bytes = 0;
  for (std::uint32_t zone = 0; zone < geometry.zone_count; ++zone) {
    const ZoneInfo& info = recovered.zones[zone];
    zones.push_back({.capacity = info.capacity,
                     .written = info.write_pointer,
                     .use = zone < kMetadataZones ? ZoneUse::kUnusable : UseOf(info.condition)});
  }
  for (const auto& [id, file] : space_.files) {
    file->recorded = file->size;
    for (const Extent& extent : file->extents) {
      ZoneSpace& zone = zones[extent.zone];
      zone.kept += KeptBy(extent, geometry.block_size);
      zone.lifetime = std::max(zone.lifetime, file->lifetime);
    }
    if (file->kind == FileKind::kLog) log_bytes += file->size;
  }
  allocator_ = std::make_unique<Allocator>(AllocatorSetup{.policy = superblock_.policy,
                                                          .block_size = geometry.block_size,
                                                          .active_budget = ActiveBudget(geometry),
                                                          .zones = std::move(zones),
                                                          .log_bytes = log_bytes});
  return read_only_ ? IOStatus::OK() : BeginLog(recovered);
}

IOStatus Volume::BeginLog(const Recovered& recovered) {
  // What was read may not have been flushed by the one who wrote it.
  RETURN_IF_ERROR(io_.Flush());
  const std::uint32_t zone = recovered.metadata_zone;
  const std::uint32_t other = 1 - zone;
  if (recovered.zones[other].write_pointer != 0) RETURN_IF_ERROR(io_.Reset(other, true));
  RETURN_IF_ERROR(LimitActive(recovered));
  log_ = std::make_unique<MetaLog>(
      &io_, &state_, [this](std::vector<Record>* records) { Describe(records); }, superblock_, zone,
      recovered.last_frame, std::min(recovered.zones[0].capacity, recovered.zones[1].capacity));
  RETURN_IF_ERROR(log_->RollOver());
  return Reclaim(true);
}

// A loss of power turns zones that were filled since the last flush back into active ones, and a
// device can lower its limits: then the log could not roll over. In order of harm: zones that hold
// nothing are reset, others are finished, then the metadata zone, which is given back soon anyway,
// and only then those whose write pointer recovery would need once more if it was interrupted.
IOStatus Volume::LimitActive(const Recovered& recovered) {
  const std::uint32_t budget = ActiveBudget(io_.geometry());
  const std::uint32_t metadata = recovered.metadata_zone;
  const ZoneInfo& info = recovered.zones[metadata];
  bool metadata_active = IsActive(info.condition);
  // The budget leaves two zones to the metadata log: this one, and the next generation's.
  const auto exceeded = [this, budget, &metadata_active] {
    return budget != 0 && allocator_->active_zones() + metadata_active > budget + 1;
  };
  if (!exceeded()) return IOStatus::OK();
  for (const std::uint32_t zone : allocator_->Resettable(true)) {
    allocator_->BeginReset(zone);
    RETURN_IF_ERROR(ResetZone(zone));
  }
  std::vector<bool> spared = recovered.fragile;
  while (exceeded()) {
    if (const auto zone = allocator_->TakeFullest(spared)) {
      RETURN_IF_ERROR(FinishZone(*zone, FinishCause::kActiveLimit));
    } else if (metadata_active) {
      metadata_active = false;
      RETURN_IF_ERROR(
          io_.Finish(FinishCause::kMetadata, metadata, info.capacity - info.write_pointer));
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
  if (ledger_thread_.joinable()) {
    ledger_thread_.request_stop();
    ledger_thread_.join();
    ledger_ << LedgerLine("close") << std::endl;
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
    const std::uint64_t known = file->kind == FileKind::kLog ? file->size : file->recorded;
    if (known == 0) continue;
    records->emplace_back(ExtentsRecord{.file = file->id,
                                        .from = 0,
                                        .lifetime = file->lifetime,
                                        .extents = Part(file->extents, 0, known)});
  }
  for (const auto& [zone, log_zone] : log_zones_) {
    if (log_zone.end == 0) {
      records->emplace_back(LogZoneRecord{.zone = zone, .offset = log_zone.offset});
    }
  }
}

std::uint64_t Volume::Change(const Record& record) {
  const std::uint64_t position = log_->Append(record);
  space_.Apply(record, 0).PermitUncheckedError();  // callers looked whether it fits
  return position;
}

IOStatus Volume::Create(const std::string& name, FileKind kind, std::shared_ptr<File>* file) {
  if (read_only_) return IOStatus::NotSupported("read-only", name);
  if (!IsCanonical(name)) return IOStatus::InvalidArgument("bad-name", name);
  const std::lock_guard lock(state_);
  const std::uint64_t position =
      Change(CreateRecord{.file = space_.next_file, .kind = kind, .modified = Now(), .name = name});
  *file = space_.names.at(name);
  (*file)->handles = 1;
  (*file)->position = position;
  return IOStatus::OK();
}

IOStatus Volume::Open(const std::string& name, std::shared_ptr<File>* file) {
  const std::lock_guard lock(state_);
  const auto entry = space_.names.find(name);
  if (entry == space_.names.end()) return Missing(name);
  ++entry->second->handles;
  *file = entry->second;
  return IOStatus::OK();
}

void Volume::Release(const std::shared_ptr<File>& file) {
  const std::lock_guard lock(state_);
  --file->handles;
  if (file->deleted) Forget(file);
}

void Volume::Forget(const std::shared_ptr<File>& file) {
  if (file->kind == FileKind::kLog && !file->deleted) allocator_->LogsShrank(file->size);
  file->deleted = true;
  if (file->handles > 0) return;
  ForgetMap(file.get());
  if (!file->extents.empty()) {
    // The record that ended the file was appended before.
    freed_.push_back({.position = log_->appended(), .extents = std::move(file->extents)});
    freed_waiting_ = true;
    ++returns_;
    changed_.notify_all();
  }
  space_.files.erase(file->id);
}

IOStatus Volume::Delete(const std::string& name) {
  if (read_only_) return IOStatus::NotSupported("read-only", name);
  const std::lock_guard lock(state_);
  const auto entry = space_.names.find(name);
  if (entry == space_.names.end()) return Missing(name);
  Change(DeleteRecord{.file = entry->second->id});
  return IOStatus::OK();
}

IOStatus Volume::Rename(const std::string& from, const std::string& to) {
  if (read_only_) return IOStatus::NotSupported("read-only", from);
  if (!IsCanonical(to)) return IOStatus::InvalidArgument("bad-name", to);
  const std::lock_guard lock(state_);
  const auto entry = space_.names.find(from);
  if (entry == space_.names.end()) return Missing(from);
  const std::shared_ptr<File> file = entry->second;
  if (from != to) file->position = Change(RenameRecord{.file = file->id, .name = to});
  return IOStatus::OK();
}

void Volume::RenameDirectory(const std::string& from, const std::string& to) {
  if (!HasFilesBelow(from)) return;
  const std::lock_guard lock(state_);
  const std::uint64_t position = Change(RenameDirRecord{.from = from, .to = to});
  for (const auto& [name, file] : space_.names) {
    if (name.starts_with(to + "/")) file->position = position;
  }
}

bool Volume::Exists(const std::string& name) {
  const std::lock_guard lock(state_);
  return space_.names.contains(name);
}

IOStatus Volume::Stat(const std::string& name, std::uint64_t* size, std::uint64_t* modified) {
  std::shared_ptr<File> file;
  RETURN_IF_ERROR(Open(name, &file));
  *size = Size(file.get());
  *modified = file->modified;
  Release(file);
  return IOStatus::OK();
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

IOStatus Volume::SyncNames() { return read_only_ ? IOStatus::OK() : Commit(log_->appended()); }

void Volume::RecordExtents(File* file, std::uint64_t from) {
  const std::uint64_t to = file->kind == FileKind::kLog ? file->size : file->recorded;
  if (from >= to || file->deleted) return;
  file->position = log_->Append(ExtentsRecord{.file = file->id,
                                              .from = from,
                                              .lifetime = file->lifetime,
                                              .extents = Part(file->extents, from, to)});
}

void Volume::RecordNew(File* file) {
  if (file->kind == FileKind::kLog || file->recorded == file->size) return;
  const std::uint64_t from = std::exchange(file->recorded, file->size);
  RecordExtents(file, from);
}

std::vector<FileInfo> Volume::Files() {
  std::vector<FileInfo> files;
  const std::lock_guard lock(state_);
  for (const auto& [name, file] : space_.names) files.push_back(*file);
  return files;
}

}  // namespace zlfs
