#include "zlfs/tool/commands.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "coldfill/block.h"
#include "zlfs/fs/check.h"
#include "zlfs/fs/file_system.h"
#include "zlfs/zoned/open.h"

namespace zlfs::tool {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Also the unit in which coldfill repeats its pattern: the same size gives the same bytes.
constexpr std::size_t kPart = 1 << 20;

IOStatus FromFile(const std::string& path, Source* source) {
  const std::shared_ptr<std::FILE> file(std::fopen(path.c_str(), "rbe"),
                                        [](std::FILE* f) { return f ? std::fclose(f) : 0; });
  if (file == nullptr) return IOStatus::PathNotFound("missing", path + ": " + std::strerror(errno));
  *source = [file, path, buffer = std::vector<char>(kPart)](Slice* part) mutable {
    *part = Slice(buffer.data(), std::fread(buffer.data(), 1, buffer.size(), file.get()));
    return std::ferror(file.get()) ? IOStatus::IOError(path, std::strerror(errno)) : IOStatus::OK();
  };
  return IOStatus::OK();
}

// What `coldfill write --bytes=SIZE --seed=SEED` writes.
IOStatus FromSeed(std::uint64_t size, std::uint64_t seed, Source* source) {
  if (size % coldfill::kBlockSize != 0) {
    return IOStatus::InvalidArgument("bad-option", "--size is no multiple of 4096");
  }
  const auto words = std::make_shared<std::vector<std::uint64_t>>(kPart / sizeof(std::uint64_t));
  *source = [words, pattern = coldfill::Pattern(seed, size / coldfill::kBlockSize, *words), size,
             done = std::uint64_t{0}](Slice* part) mutable {
    pattern.Stamp(done / coldfill::kBlockSize);
    *part = Slice(reinterpret_cast<const char*>(words->data()),
                  std::min<std::uint64_t>(kPart, size - done));
    done += part->size();
    return IOStatus::OK();
  };
  return IOStatus::OK();
}

IOStatus MountToRead(const Arguments& arguments, std::unique_ptr<Volume>* volume) {
  std::unique_ptr<ZonedDevice> device;
  RETURN_IF_ERROR(OpenDevice(arguments.device, Access::kReadOnly, nullptr, &device));
  return Volume::Mount(std::move(device), {.read_only = true}, volume);
}

}  // namespace

// The commands that write: they want the device for themselves.

IOStatus RunMkfs(Arguments* arguments) {
  OptionMap options;
  std::unique_ptr<ZonedDevice> device;
  RETURN_IF_ERROR(OpenDevice(arguments->device, Access::kReadWrite, &options, &device));
  for (const auto& [name, value] : arguments->policy) options[name] = value;
  Policy policy;
  RETURN_IF_ERROR(ChangePolicy(std::move(options), &policy));
  if (!arguments->aux.empty()) RETURN_IF_ERROR(MakePath(arguments->aux));
  return Mkfs(device.get(), policy, arguments->erase, arguments->label);
}

IOStatus RunImport(Arguments* arguments) {
  Source source;
  MountOptions options;
  std::unique_ptr<ZonedDevice> device;
  RETURN_IF_ERROR(arguments->size ? FromSeed(*arguments->size, *arguments->seed, &source)
                                  : FromFile(arguments->from, &source));
  RETURN_IF_ERROR(OpenDevice(arguments->device, Access::kReadWrite, &options.policy, &device));
  if (!arguments->aux.empty()) {
    RETURN_IF_ERROR(MakePath(arguments->aux));
    options.ledger_path = arguments->aux + "/ledger.jsonl";
  }
  options.trace_path = arguments->trace;
  std::unique_ptr<Volume> volume;
  RETURN_IF_ERROR(Volume::Mount(std::move(device), options, &volume));
  std::uint64_t bytes = 0;
  Clock::time_point next = Clock::now();
  const IOStatus imported = Import(volume.get(), arguments->name, [&](Slice* part) {
    if (arguments->progress && Clock::now() >= next) {
      std::fprintf(stderr, "%" PRIu64 "\n", bytes);
      next = Clock::now() + std::chrono::seconds(1);
    }
    RETURN_IF_ERROR(source(part));
    bytes += part->size();
    return IOStatus::OK();
  });
  const IOStatus closed = volume->Close();
  RETURN_IF_ERROR(imported);
  RETURN_IF_ERROR(closed);
  std::puts(Json({{"name", arguments->name}, {"bytes", bytes}}).dump().c_str());
  return IOStatus::OK();
}

// The commands that change nothing, and work beside a running database.

IOStatus RunDf(Arguments* arguments) {
  std::unique_ptr<Volume> volume;
  std::vector<ZoneInfo> zones;
  RETURN_IF_ERROR(MountToRead(*arguments, &volume));
  const Geometry& geometry = volume->device()->geometry();
  RETURN_IF_ERROR(volume->device()->Report(0, geometry.zone_count, &zones));
  std::uint64_t capacity = 0;
  for (const ZoneInfo& zone : zones) {
    capacity += zone.condition == ZoneCondition::kOffline ? 0 : zone.capacity;
  }
  constexpr auto kCondition = &ZoneInfo::condition;
  const Superblock& superblock = volume->superblock();
  const SpaceUse space = volume->Space();
  const TotalsRecord totals = volume->SinceMkfs();
  const std::uint64_t taken = space.live + space.pad + space.kept;
  const Json df = {
      {"schema_version", 1},
      {"identity", superblock.identity()},
      {"label", superblock.label()},
      {"block_size", geometry.block_size},
      {"zone_size", geometry.zone_size},
      {"zone_capacity", zones[kMetadataZones].capacity},
      {"zones", geometry.zone_count},
      {"capacity_bytes", capacity},
      {"metadata_bytes", zones[0].capacity + zones[1].capacity},
      {"zones_empty", std::ranges::count(zones, ZoneCondition::kEmpty, kCondition)},
      {"zones_active", std::ranges::count_if(zones, IsActive, kCondition)},
      {"zones_full", std::ranges::count(zones, ZoneCondition::kFull, kCondition)},
      {"free_bytes", space.capacity - std::min(space.capacity, taken)},
      {"live_bytes", space.live},
      {"garbage_bytes", space.garbage},
      {"pad_bytes", space.pad},
      {"reserve_bytes", space.kept},
      {"files", volume->Files().size()},
      {"max_active", geometry.max_active},
      {"finish_remaining_pct", superblock.policy.finish_remaining_pct},
      {"finish_occupancy_pct", superblock.policy.finish_occupancy_pct},
      {"gc",
       {{"copied_bytes", totals.collected_bytes}, {"zones_reclaimed", totals.collected_zones}}},
      {"finishes", totals.finishes},
      {"resets", totals.resets}};
  if (arguments->format == "json") {
    std::puts(df.dump().c_str());
    return IOStatus::OK();
  }
  for (const auto& [name, value] : df.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::printf("%-22s %s\n", name.c_str(), text.c_str());
  }
  return IOStatus::OK();
}

IOStatus RunList(Arguments* arguments) {
  std::unique_ptr<Volume> volume;
  RETURN_IF_ERROR(MountToRead(*arguments, &volume));
  const bool table = arguments->format == "table";
  Json files = Json::array();
  for (const FileInfo& file : volume->Files()) {
    if (table) std::printf("%15" PRIu64 "  %s\n", file.size, file.name.c_str());
    files.push_back({{"name", file.name},
                     {"size", file.size},
                     {"extents", file.extents.size()},
                     {"modified", file.modified}});
  }
  if (!table) std::puts(Json({{"schema_version", 1}, {"files", files}}).dump().c_str());
  return IOStatus::OK();
}

IOStatus RunDump(Arguments* arguments) {
  std::unique_ptr<Volume> volume;
  RETURN_IF_ERROR(MountToRead(*arguments, &volume));
  std::puts(DumpJson(volume.get()).c_str());
  return IOStatus::OK();
}

IOStatus RunFsck(Arguments* arguments) {
  std::unique_ptr<ZonedDevice> device;
  std::vector<Violation> found;
  RETURN_IF_ERROR(OpenDevice(arguments->device, Access::kReadOnly, nullptr, &device));
  RETURN_IF_ERROR(Check(device.get(), &found));
  arguments->violated = !found.empty();
  const bool table = arguments->format == "table";
  Json violations = Json::array();
  for (const Violation& violation : found) {
    if (table) std::printf("%2d  %s\n", violation.invariant, violation.what.c_str());
    violations.push_back({{"invariant", violation.invariant}, {"what", violation.what}});
  }
  if (!table) std::puts(Json({{"schema_version", 1}, {"violations", violations}}).dump().c_str());
  if (table && found.empty()) std::puts("no violations");
  return IOStatus::OK();
}

}  // namespace zlfs::tool
