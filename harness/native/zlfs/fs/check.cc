#include "zlfs/fs/check.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include "rocksdb/env.h"
#include "zlfs/format/sealed.h"
#include "zlfs/meta/recover.h"

namespace zlfs {
namespace {

// Which invariant recovery's refusals belong to: their messages begin with these names.
constexpr std::pair<std::string_view, int> kRefusals[] = {
    {"wrong-magic", 1},   {"newer-version", 1},  {"corrupt-superblock", 1}, {"wrong-device", 1},
    {"corrupt-frame", 2}, {"corrupt-record", 3}, {"lost-data", 6},          {"corrupt-piece", 7},
    {"corrupt-log", 9},   {"corrupt-size", 2},
};

class Checker {
 public:
  Checker(const Recovered& recovered, const Geometry& geometry, std::vector<Violation>* violations)
      : recovered_(recovered), geometry_(geometry), violations_(violations) {}

  void Run() {
    std::vector<Held> held;
    for (const auto& [id, file] : recovered_.space.files) CheckFile(id, file, &held);
    std::sort(held.begin(), held.end(), [](const Held& a, const Held& b) {
      return std::tie(a.zone, a.first) < std::tie(b.zone, b.first);
    });
    for (std::size_t i = 1; i < held.size(); ++i) {
      if (held[i].zone == held[i - 1].zone && held[i].first < held[i - 1].end) {
        Add(5, "files " + std::to_string(held[i - 1].file) + " and " +
                   std::to_string(held[i].file) + " share a block of zone " +
                   std::to_string(held[i].zone));
      }
    }
    CheckLogZones();
    CheckLimits();
  }

 private:
  struct Held {
    std::uint32_t zone;
    std::uint64_t first;  // byte
    std::uint64_t end;
    std::uint64_t file;
  };

  void Add(int invariant, std::string what) {
    violations_->push_back({.invariant = invariant, .what = std::move(what)});
  }

  void CheckFile(std::uint64_t id, const RecoveredFile& file, std::vector<Held>* held) {
    const std::string name = "file " + std::to_string(id);
    const std::uint64_t block = geometry_.block_size;
    if (id >= recovered_.space.next_file) Add(8, name + " is not below the next file id");
    for (const auto& [extent, frame] : file.extents) {
      const std::uint64_t into = extent.offset % block;
      const bool piece = file.kind == FileKind::kLog && into == kHeaderSize;
      if (into != 0 && !piece) Add(4, name + " has an extent that begins within a block");
      const ZoneInfo& zone = recovered_.zones[extent.zone];
      if (zone.condition == ZoneCondition::kOffline) {
        Add(10, name + " lies in zone " + std::to_string(extent.zone) + ", which is offline");
      }
      held->push_back({.zone = extent.zone,
                       .first = extent.offset - into,
                       .end = RoundUp(extent.end(), block),
                       .file = id});
    }
  }

  void CheckLogZones() {
    for (const auto& [zone, start] : recovered_.space.log_zones) {
      if (start % geometry_.block_size != 0 || start > recovered_.zones[zone].capacity) {
        Add(7, "log zone " + std::to_string(zone) + " begins at " + std::to_string(start));
      }
    }
  }

  void CheckLimits() {
    std::uint32_t active = 0;
    for (const ZoneInfo& zone : recovered_.zones) active += IsActive(zone.condition);
    if (geometry_.max_active != 0 && active > geometry_.max_active) {
      Add(10, std::to_string(active) + " active zones, the device allows " +
                  std::to_string(geometry_.max_active));
    }
  }

  const Recovered& recovered_;
  const Geometry& geometry_;
  std::vector<Violation>* const violations_;
};

}  // namespace

IOStatus Check(ZonedDevice* device, std::vector<Violation>* violations) {
  violations->clear();
  Recovered recovered;
  const IOStatus status = RecoverBeside(device, &recovered);
  if (status.ok()) {
    Checker(recovered, device->geometry(), violations).Run();
    return status;
  }
  const std::string_view message = status.getState() == nullptr ? "" : status.getState();
  for (const auto& [name, invariant] : kRefusals) {
    if (message.starts_with(name)) {
      violations->push_back({.invariant = invariant, .what = std::string(message)});
      return IOStatus::OK();
    }
  }
  return status;
}

std::string DumpJson(Volume* volume) {
  const Superblock& superblock = volume->superblock();
  const Geometry& geometry = volume->device()->geometry();
  const Policy& policy = superblock.policy;
  nlohmann::json dump;
  dump["schema_version"] = 1;
  dump["superblock"] = {
      {"format_version", kFormatVersion},    {"generation", superblock.generation},
      {"identity", superblock.identity},     {"label", superblock.label},
      {"block_size", superblock.block_size}, {"zone_size", superblock.zone_size},
      {"zone_count", superblock.zone_count}, {"max_active", geometry.max_active},
      {"max_open", geometry.max_open}};
  dump["policy"] = {
      {"finish_remaining_pct", policy.finish_remaining_pct},
      {"finish_occupancy_pct", policy.finish_occupancy_pct()},
      {"on_active_limit", kOnActiveLimitNames[static_cast<std::size_t>(policy.on_active_limit)]},
      {"lifetimes", policy.lifetimes},
      {"gc", policy.gc},
      {"gc_start_pct", policy.gc_start_pct},
      {"gc_victim", kVictimNames[static_cast<std::size_t>(policy.gc_victim)]}};
  const SpaceUse space = volume->Space();
  dump["space"] = {{"capacity", space.capacity},       {"live", space.live},
                   {"garbage", space.garbage},         {"pad", space.pad},
                   {"given_up", space.given_up},       {"free", space.free},
                   {"empty_zones", space.empty_zones}, {"active_zones", space.active_zones}};
  dump["files"] = nlohmann::json::array();
  for (const FileInfo& file : volume->Files()) {
    nlohmann::json extents = nlohmann::json::array();
    for (const Extent& extent : file.extents) {
      extents.push_back({extent.zone, extent.offset, extent.length});
    }
    dump["files"].push_back({{"id", file.id},
                             {"name", file.name},
                             {"kind", file.kind == FileKind::kLog ? "log" : "data"},
                             {"size", file.size},
                             {"modified", file.modified},
                             {"lifetime", file.lifetime},
                             {"extents", std::move(extents)}});
  }
  static constexpr const char* kUseNames[] = {"unusable",  "empty", "active",
                                              "finishing", "full",  "resetting"};
  dump["zones"] = nlohmann::json::array();
  const std::vector<ZoneSpace> zones = volume->Zones();
  for (std::size_t i = 0; i < zones.size(); ++i) {
    const ZoneSpace& zone = zones[i];
    dump["zones"].push_back(
        {{"zone", i},
         {"use", i < kMetadataZones ? "metadata" : kUseNames[static_cast<std::size_t>(zone.use)]},
         {"capacity", zone.capacity},
         {"written", zone.written},
         {"live", zone.kept.live},
         {"pad", zone.kept.held - zone.kept.live},
         {"lifetime", zone.lifetime}});
  }
  return dump.dump();
}

IOStatus Import(Volume* volume, const std::string& name, const Source& next) {
  if (volume->Exists(name)) return IOStatus::InvalidArgument("exists", name);
  std::shared_ptr<File> file;
  IOStatus status = volume->Create(name, FileKind::kData, &file);
  if (!status.ok()) return status;
  // Cold data: it outlives everything else.
  volume->SetPlacement(file.get(), {.stream = Stream::kData,
                                    .urgency = Urgency::kGrowth,
                                    .cause = Cause::kImport,
                                    .lifetime = rocksdb::Env::WLTH_EXTREME});
  for (Slice part; (status = next(&part)).ok() && !part.empty();) {
    status = volume->Append(file.get(), part);
    if (!status.ok()) break;
  }
  if (status.ok()) status = volume->Sync(file.get());
  // No zone stays active for data that will never grow.
  const IOStatus finished = volume->FinishWriting(file.get(), true);
  if (status.ok()) status = finished;
  volume->Release(file);
  // Half a file is of no use, and what it takes may be needed.
  if (!status.ok() && volume->Delete(name).ok()) volume->SyncNames().PermitUncheckedError();
  return status;
}

}  // namespace zlfs
