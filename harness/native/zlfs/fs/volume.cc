// Mounting, names, and the records that describe them.

#include "zlfs/fs/volume.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "zlfs/fs/ledger_file.h"

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

std::vector<Extent> Part(const std::vector<Extent>& extents, std::uint64_t from, std::uint64_t to) {
  std::vector<Extent> part;
  std::uint64_t at = 0;
  for (const Extent& extent : extents) {
    const std::uint64_t begin = std::max(at, from);
    const std::uint64_t end = std::min(at + extent.length, to);
    if (begin < end) {
      part.push_back(
          {.zone = extent.zone, .offset = extent.offset + begin - at, .length = end - begin});
    }
    at += extent.length;
  }
  return part;
}

void Join(std::vector<Extent>* extents, const Extent& extent) {
  Extent* const last = extents->empty() ? nullptr : &extents->back();
  if (last != nullptr && last->zone == extent.zone && last->end() == extent.offset) {
    last->length += extent.length;
  } else {
    extents->push_back(extent);
  }
}

Volume::Volume(std::unique_ptr<ZonedDevice> device, bool read_only)
    : device_(std::move(device)),
      read_only_(read_only),
      io_(device_.get()),
      zone_locks_(device_->geometry().zone_count),
      collector_(this) {}

Volume::~Volume() { Close().PermitUncheckedError(); }

IOStatus Volume::Mount(std::unique_ptr<ZonedDevice> device, const MountOptions& options,
                       std::unique_ptr<Volume>* volume) {
  IOStatus status = options.read_only ? IOStatus::OK() : CheckDevice(device.get());
  if (!status.ok()) return status;
  Recovered recovered;
  status = options.read_only ? RecoverBeside(device.get(), &recovered)
                             : Recover(device.get(), &recovered);
  if (!status.ok()) return status;
  Policy policy = recovered.superblock.policy;
  status = ChangePolicy(options.policy, &policy);
  if (!status.ok()) return status;
  std::unique_ptr<Volume> mounted(new Volume(std::move(device), options.read_only));
  status = mounted->Load(std::move(recovered), policy);
  if (status.ok() && !options.ledger_path.empty() && !options.read_only) {
    Volume* const self = mounted.get();
    status = LedgerFile::Open(
        options.ledger_path, [self](const char* event) { return self->LedgerLine(event); },
        &mounted->ledger_file_);
  }
  if (status.ok()) *volume = std::move(mounted);
  return status;
}

IOStatus Volume::Load(Recovered recovered, const Policy& policy) {
  superblock_ = recovered.superblock;
  superblock_.policy = policy;
  piece_number_ = recovered.last_piece;
  next_file_ = recovered.space.next_file;
  before_ = recovered.space.totals;
  const Geometry& geometry = device_->geometry();
  std::vector<ZoneSpace> zones;
  std::uint64_t log_bytes = 0;
  for (std::uint32_t zone = 0; zone < geometry.zone_count; ++zone) {
    const ZoneInfo& info = recovered.zones[zone];
    zones.push_back({.capacity = info.capacity,
                     .written = info.write_pointer,
                     .use = zone < kMetadataZones ? ZoneUse::kUnusable : UseOf(info.condition)});
    zone_locks_[zone].write_pointer = info.write_pointer;
  }
  for (auto& [id, found] : recovered.space.files) {
    auto file = std::make_shared<File>(std::move(found));
    file->recorded = file->size;
    for (const Extent& extent : file->extents) {
      ZoneSpace& zone = zones[extent.zone];
      zone.kept += KeptBy(extent, geometry.block_size);
      zone.lifetime = std::max(zone.lifetime, file->lifetime);
    }
    if (file->kind == FileKind::kLog) log_bytes += file->size;
    names_[file->name] = file;
    files_[id] = std::move(file);
  }
  allocator_ = std::make_unique<Allocator>(AllocatorSetup{.policy = policy,
                                                          .block_size = geometry.block_size,
                                                          .active_budget = ActiveBudget(geometry),
                                                          .zones = std::move(zones),
                                                          .log_bytes = log_bytes});
  if (read_only_) return IOStatus::OK();
  return BeginLog(recovered);
}

IOStatus Volume::BeginLog(const Recovered& recovered) {
  // What was read may not have been flushed by the one who wrote it.
  IOStatus status = io_.Flush();
  if (!status.ok()) return status;
  const std::uint32_t zone = recovered.metadata_zone;
  const std::uint32_t other = 1 - zone;
  if (recovered.zones[other].write_pointer != 0) {
    status = io_.Reset(other, true);
    if (!status.ok()) return status;
  }
  status = LimitActive(recovered);
  if (!status.ok()) return status;
  log_ = std::make_unique<MetaLog>(
      &io_, &state_, [this](std::vector<Record>* records) { Describe(records); }, superblock_, zone,
      recovered.last_frame, std::min(recovered.zones[0].capacity, recovered.zones[1].capacity));
  status = log_->RollOver();
  return status.ok() ? Reclaim(true) : status;
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
    if (IOStatus status = ResetZone(zone); !status.ok()) return status;
  }
  std::vector<bool> spared = recovered.fragile;
  while (exceeded()) {
    IOStatus status;
    if (const auto zone = allocator_->TakeFullest(spared)) {
      status = FinishZone(*zone, FinishCause::kActiveLimit);
    } else if (metadata_active) {
      metadata_active = false;
      status = io_.Finish(FinishCause::kMetadata, metadata, info.capacity - info.write_pointer);
    } else if (!spared.empty()) {
      spared.clear();
    } else {
      return IOStatus::InvalidArgument("limits-too-small", "too many zones are active");
    }
    if (!status.ok()) return status;
  }
  return IOStatus::OK();
}

IOStatus Volume::Close() {
  if (closed_) return IOStatus::OK();
  closed_ = true;
  IOStatus status;
  if (log_ != nullptr) {
    status = log_->Commit(log_->appended());
    if (status.ok()) status = Reclaim(true);
    if (status.ok()) {
      {
        const std::lock_guard lock(state_);
        log_->Append(SinceMkfs());
      }
      status = log_->Commit(log_->appended());
    }
  }
  ledger_file_.reset();
  return status;
}

void Volume::Describe(std::vector<Record>* records) {
  records->emplace_back(StateRecord{.next_file = next_file_});
  records->emplace_back(SinceMkfs());
  for (const auto& [name, file] : names_) {
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

IOStatus Volume::Create(const std::string& name, FileKind kind, std::shared_ptr<File>* result) {
  if (read_only_) return IOStatus::NotSupported("read-only", name);
  if (!IsCanonical(name)) return IOStatus::InvalidArgument("bad-name", name);
  const std::lock_guard lock(state_);
  auto file = std::make_shared<File>(
      FileInfo{.id = next_file_++, .kind = kind, .name = name, .modified = Now()});
  file->handles = 1;
  file->position = log_->Append(
      CreateRecord{.file = file->id, .kind = kind, .modified = file->modified, .name = name});
  std::shared_ptr<File>& entry = names_[name];
  if (entry != nullptr) Forget(entry);
  entry = file;
  files_[file->id] = file;
  *result = std::move(file);
  return IOStatus::OK();
}

IOStatus Volume::Open(const std::string& name, std::shared_ptr<File>* file) {
  const std::lock_guard lock(state_);
  const auto entry = names_.find(name);
  if (entry == names_.end()) return Missing(name);
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
  if (!file->extents.empty()) {
    // The record that ended the file was appended before.
    freed_.push_back({.position = log_->appended(), .extents = std::move(file->extents)});
    freed_waiting_ = true;
  }
  files_.erase(file->id);
}

IOStatus Volume::Delete(const std::string& name) {
  if (read_only_) return IOStatus::NotSupported("read-only", name);
  const std::lock_guard lock(state_);
  const auto entry = names_.find(name);
  if (entry == names_.end()) return Missing(name);
  const std::shared_ptr<File> file = entry->second;
  names_.erase(entry);
  log_->Append(DeleteRecord{.file = file->id});
  Forget(file);
  return IOStatus::OK();
}

IOStatus Volume::Rename(const std::string& from, const std::string& to) {
  if (read_only_) return IOStatus::NotSupported("read-only", from);
  if (!IsCanonical(to)) return IOStatus::InvalidArgument("bad-name", to);
  const std::lock_guard lock(state_);
  const auto entry = names_.find(from);
  if (entry == names_.end()) return Missing(from);
  const std::shared_ptr<File> file = entry->second;
  if (from == to) return IOStatus::OK();
  names_.erase(entry);
  file->name = to;
  file->position = log_->Append(RenameRecord{.file = file->id, .name = to});
  std::shared_ptr<File>& target = names_[to];
  if (target != nullptr) Forget(target);
  target = file;
  return IOStatus::OK();
}

void Volume::RenameDirectory(const std::string& from, const std::string& to) {
  const std::lock_guard lock(state_);
  const std::string prefix = from + "/";
  std::vector<std::shared_ptr<File>> moved;
  for (auto entry = names_.lower_bound(prefix);
       entry != names_.end() && entry->first.starts_with(prefix); entry = names_.erase(entry)) {
    moved.push_back(entry->second);
  }
  if (moved.empty()) return;
  const std::uint64_t position = log_->Append(RenameDirRecord{.from = from, .to = to});
  for (const auto& file : moved) {
    file->name = to + file->name.substr(from.size());
    file->position = position;
    names_[file->name] = file;
  }
}

bool Volume::Exists(const std::string& name) {
  const std::lock_guard lock(state_);
  return names_.contains(name);
}

IOStatus Volume::Stat(const std::string& name, std::uint64_t* size, std::uint64_t* modified) {
  std::shared_ptr<File> file;
  if (IOStatus status = Open(name, &file); !status.ok()) return status;
  *size = Size(file.get());
  *modified = file->modified;
  Release(file);
  return IOStatus::OK();
}

std::vector<std::string> Volume::List(const std::string& directory) {
  const std::string prefix = directory == "/" ? directory : directory + "/";
  std::vector<std::string> names;
  const std::lock_guard lock(state_);
  for (auto entry = names_.lower_bound(prefix);
       entry != names_.end() && entry->first.starts_with(prefix); ++entry) {
    std::string rest = entry->first.substr(prefix.size());
    if (rest.find('/') == std::string::npos) names.push_back(std::move(rest));
  }
  return names;
}

bool Volume::HasFilesBelow(const std::string& directory) {
  const std::lock_guard lock(state_);
  const auto entry = names_.lower_bound(directory + "/");
  return entry != names_.end() && entry->first.starts_with(directory + "/");
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
  for (const auto& [name, file] : names_) files.push_back(*file);
  return files;
}

}  // namespace zlfs
