#include "replay/model.h"

#include <algorithm>
#include <utility>

#include "zlfs/format/sealed.h"
#include "zlfs/format/superblock.h"

namespace zlfs::replay {
namespace {

std::uint64_t Head(FileKind kind) { return kind == FileKind::kLog ? kHeaderSize : 0; }

}  // namespace

Setting SettingOf(const Mount& mount) {
  // Traces of format 1 have two metadata zones.
  const std::uint32_t metadata_zones = mount.version > 1 ? kMetadataZones : 2;
  return {.policy = mount.policy,
          .block_size = mount.block_size,
          .zone_capacity = mount.zones.at(metadata_zones).capacity,
          .zones = static_cast<std::uint32_t>(mount.zones.size()),
          .active_budget = mount.active_budget,
          .skip_released = mount.version > 1,
          .metadata_zones = metadata_zones,
          .metadata_copies = mount.version > 4 ? 2U : 1U};
}

void Model::Begin(const Setting& setting, std::vector<ZoneSpace> zones) {
  heard_ = false;
  block_size_ = setting.block_size;
  metadata_copies_ = setting.metadata_copies;
  std::uint64_t log_bytes = 0;
  for (const auto& [id, file] : files_) {
    for (const Extent& extent : file->extents) {
      ZoneSpace& zone = zones.at(extent.zone);
      zone.kept += KeptBy(extent, block_size_);
      zone.lifetime = std::max(zone.lifetime, file->lifetime);
    }
    if (file->kind == FileKind::kLog) log_bytes += file->size;
  }
  wear_.resize(zones.size());
  allocator_ = std::make_unique<Allocator>(
      AllocatorSetup{.policy = setting.policy,
                     .block_size = static_cast<std::uint32_t>(block_size_),
                     .active_budget = setting.active_budget,
                     .zones = std::move(zones),
                     .log_bytes = log_bytes,
                     .skip_released = setting.skip_released});
  freed_.clear();
  victim_.reset();
  runs_.clear();
  ForgetCounts();
}

void Model::Start() {
  ForgetCounts();
  heard_ = listener_ != nullptr;
  if (heard_) listener_->Started(*this);
}

void Model::Take(const Mount& mount, std::size_t event) const {
  if (heard_) listener_->Comes(*this, mount.events[event], mount.stamps[event]);
}

void Model::ForgetCounts() {
  totals_ = {};
  collected_zones_ = 0;
  retired_.clear();
}

Decision Model::Ask(const AskEvent& ask, std::uint64_t content) {
  const auto cause = static_cast<Cause>(ask.cause);
  const bool copy = cause == Cause::kGc;
  return allocator_->Allocate({.placement = {cause, ask.job != 0, ask.lifetime},
                               .writer = copy ? 0 : ask.subject,
                               .size = RoundUp(Head(ask.kind) + content, block_size_)});
}

std::uint64_t Model::Write(const AskEvent& ask, const Decision& grant, std::uint64_t content) {
  const std::uint64_t head = Head(ask.kind);
  const std::uint64_t taken = std::min(content, grant.size - head);
  const std::uint64_t at = allocator_->zone(grant.zone).written;
  const Extent extent{.zone = grant.zone, .offset = at + head, .length = taken};
  if (heard_) Tell(ask, grant, taken);
  allocator_->Written(grant.zone, KeptBy(extent, block_size_));
  Totals::Bytes& bytes = totals_.written[ask.cause];
  bytes.payload += taken;
  bytes.pad += grant.size - taken;
  if (static_cast<Cause>(ask.cause) == Cause::kGc) {
    runs_.at(ask.subject).to.push_back(extent);
  } else {
    std::shared_ptr<File>& file = files_[ask.subject];
    if (file == nullptr)
      file = std::make_shared<File>(FileInfo{.id = ask.subject, .kind = ask.kind});
    file->lifetime = ask.lifetime;
    Join(&file->extents, extent);
    file->size += taken;
    if (ask.kind == FileKind::kLog && !file->deleted) allocator_->LogsGrew(taken);
  }
  return taken;
}

void Model::Tell(const AskEvent& ask, const Decision& grant, std::uint64_t content) {
  if (static_cast<Cause>(ask.cause) == Cause::kGc) {
    const Run& run = runs_.at(ask.subject);
    std::uint64_t from = run.begin;
    for (const Extent& copied : run.to) from += copied.length;
    for (const Extent& part : Part(run.file->extents, from, from + content)) {
      listener_->CopyRead(part);
    }
  } else if (ask.kind == FileKind::kLog && !files_.contains(ask.subject)) {
    listener_->Flushed();  // before the first piece of a log
  }
  const std::uint64_t at = allocator_->zone(grant.zone).written;
  listener_->Wrote(ask, {.zone = grant.zone, .offset = at, .length = grant.size});
}

void Model::Finish(std::uint32_t zone, FinishCause cause) {
  if (heard_) listener_->Finished(zone);
  const ZoneSpace& space = allocator_->zone(zone);
  Totals::Finishes& finishes = totals_.finishes[static_cast<std::size_t>(cause)];
  ++finishes.count;
  finishes.given_up += space.capacity - space.written;
  retired_.push_back(RetirementOf(*allocator_, zone, "finish"));
  allocator_->Finished(zone);
}

void Model::Reset(std::uint32_t zone) {
  if (heard_) listener_->Reset(zone);
  ++totals_.resets_data;
  ++wear_[zone];
  retired_.push_back(RetirementOf(*allocator_, zone, "reset"));
  allocator_->ResetDone(zone);
}

void Model::Delete(std::uint64_t id) {
  const auto file = files_.find(id);
  if (file == files_.end() || std::exchange(file->second->deleted, true)) return;
  if (file->second->kind == FileKind::kLog) allocator_->LogsShrank(file->second->size);
}

void Model::Gone(std::uint64_t id) {
  const auto file = files_.extract(id);
  if (file.empty() || file.mapped()->extents.empty()) return;
  Release(file.mapped()->extents);
  freed_.push_back({.file = id, .extents = std::move(file.mapped()->extents)});
}

void Model::Release(const std::vector<Extent>& extents) {
  for (const Extent& extent : extents) {
    allocator_->Released(extent.zone, KeptBy(extent, block_size_));
  }
}

void Model::Free(const std::vector<Extent>& extents, bool released) {
  for (const Extent& extent : extents) {
    allocator_->Freed(extent.zone, KeptBy(extent, block_size_), released);
  }
}

bool Model::ChooseVictim() {
  victim_ = allocator_->PickVictim();
  if (victim_) runs_ = RunsIn(files_, *victim_);
  return victim_.has_value();
}

bool Model::Move() {
  if (heard_) listener_->Flushed();
  Freed garbage;
  bool moved = false;  // a file can be deleted while it is copied
  for (const Run& run : runs_) {
    if (!files_.contains(run.file->id)) {
      Free(run.to, false);
      continue;
    }
    moved = true;
    for (const Extent& extent : run.Replace()) garbage.extents.push_back(extent);
  }
  if (moved) ++collected_zones_;
  const bool some = !garbage.extents.empty();
  Release(garbage.extents);
  if (some) freed_.push_back(std::move(garbage));
  runs_.clear();
  victim_.reset();
  return some;
}

void Model::Abandon() {
  for (const Run& run : runs_) Free(run.to, false);
  runs_.clear();
  victim_.reset();
}

}  // namespace zlfs::replay
