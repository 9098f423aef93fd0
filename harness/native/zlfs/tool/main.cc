// zlfs: makes, fills and inspects volumes. README.md of this library describes their format.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coldfill/block.h"
#include "command_line/program.h"
#include "zlfs/fs/check.h"
#include "zlfs/fs/file_system.h"
#include "zlfs/fs/salvage.h"
#include "zlfs/meta/recover.h"

namespace zlfs::tool {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using enum command_line::Exit;

// The options of all commands; each command uses its own subset.
struct Arguments {
  std::string device;  // "dev:…", "mem:…", "file:…" or "model:…"
  std::string format = "table";
  std::string aux;
  std::string trace;
  std::string label;
  std::string erase;
  OptionMap policy;
  std::string name;
  std::string from;
  std::optional<std::uint64_t> size;  // size and seed replace `from`
  std::optional<std::uint64_t> seed;
  bool progress = false;
  bool repair = false;
  std::string to;  // folder of salvaged files

  bool violated = false;  // fsck found a violation, or salvage a loss
};

// Prints one line. Names are any bytes, but JSON is UTF-8: other bytes are replaced.
void Print(const Json& json) {
  std::puts(json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

// Equals the length of coldfill's pattern, so that the same size and seed give the same bytes.
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

// The bytes that `coldfill write --bytes=SIZE --seed=SEED` writes.
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

IOStatus MountToRead(const Arguments& arguments, std::unique_ptr<Volume>* volume,
                     bool salvage = false) {
  std::unique_ptr<ZonedDevice> device;
  // A writer can reset and fill zones again while their content is copied.
  const Access access = salvage ? Access::kReadAlone : Access::kReadOnly;
  RETURN_IF_ERROR(OpenDevice(arguments.device, access, nullptr, &device));
  return Volume::Mount(std::move(device), {.read_only = true, .salvage = salvage}, volume);
}

// Commands that write. They open the device exclusively.

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
  Print({{"name", arguments->name}, {"bytes", bytes}});
  return IOStatus::OK();
}

// Makes a volume mountable again whose newest state cannot be read. Does nothing to other volumes.
IOStatus Repair(const std::string& spec) {
  std::unique_ptr<ZonedDevice> device;
  RETURN_IF_ERROR(OpenDevice(spec, Access::kReadWrite, nullptr, &device));
  Recovered recovered;
  if (Recover(device.get(), &recovered).ok()) return IOStatus::OK();
  std::unique_ptr<Volume> volume;
  RETURN_IF_ERROR(Volume::Mount(std::move(device), {.salvage = true}, &volume));
  for (const std::string& loss : volume->losses()) std::fprintf(stderr, "lost: %s\n", loss.c_str());
  if (volume->read_only()) return IOStatus::IOError(volume->why_read_only());
  return volume->Close();
}

// Read-only commands. All except salvage also work while a database is running.

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
      {"metadata_bytes", kMetadataZones * zones[kMetadataZones].capacity},
      {"zones_empty", std::ranges::count(zones, ZoneCondition::kEmpty, kCondition)},
      {"zones_active", std::ranges::count_if(zones, IsActive, kCondition)},
      {"zones_full", std::ranges::count(zones, ZoneCondition::kFull, kCondition)},
      {"free_bytes", space.capacity - std::min(space.capacity, taken)},
      {"live_bytes", space.live},
      {"garbage_bytes", space.garbage},
      {"pad_bytes", space.pad},
      {"reserve_bytes", space.kept},
      {"files", volume->files().All().size()},
      {"max_active", geometry.max_active},
      {"finish_remaining_pct", superblock.policy.finish_remaining_pct},
      {"finish_occupancy_pct", superblock.policy.finish_occupancy_pct},
      {"gc",
       {{"copied_bytes", totals.collected_bytes}, {"zones_reclaimed", totals.collected_zones}}},
      {"finishes", totals.finishes},
      {"resets", totals.resets}};
  if (arguments->format == "json") {
    Print(df);
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
  for (const FileInfo& file : volume->files().All()) {
    if (table) std::printf("%15" PRIu64 "  %s\n", file.size, file.name.c_str());
    files.push_back({{"name", file.name},
                     {"size", file.size},
                     {"extents", file.extents.size()},
                     {"modified", file.modified}});
  }
  if (!table) Print({{"schema_version", 1}, {"files", files}});
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
  if (arguments->repair) RETURN_IF_ERROR(Repair(arguments->device));
  RETURN_IF_ERROR(OpenDevice(arguments->device, Access::kReadOnly, nullptr, &device));
  RETURN_IF_ERROR(Check(device.get(), &found));
  arguments->violated = !found.empty();
  const bool table = arguments->format == "table";
  Json violations = Json::array();
  for (const Violation& violation : found) {
    if (table) std::printf("%2d  %s\n", violation.invariant, violation.what.c_str());
    violations.push_back({{"invariant", violation.invariant}, {"what", violation.what}});
  }
  if (!table) Print({{"schema_version", 1}, {"violations", violations}});
  if (table && found.empty()) std::puts("no violations");
  return IOStatus::OK();
}

IOStatus RunSalvage(Arguments* arguments) {
  std::unique_ptr<Volume> volume;
  RETURN_IF_ERROR(MountToRead(*arguments, &volume, true));
  std::vector<Salvaged> salvaged;
  const IOStatus status = Salvage(volume.get(), arguments->to, &salvaged);
  const bool table = arguments->format == "table";
  Json files = Json::array();
  for (const Salvaged& file : salvaged) {
    arguments->violated |= !file.losses.empty();
    if (table) std::printf("%15" PRIu64 "  %s\n", file.size, file.name.c_str());
    for (const std::string& loss : file.losses) {
      if (table) std::printf("%15s  %s\n", "lost", loss.c_str());
    }
    files.push_back({{"name", file.name}, {"size", file.size}, {"losses", file.losses}});
  }
  arguments->violated |= !volume->losses().empty();
  for (const std::string& loss : volume->losses()) {
    if (table) std::printf("%15s  %s\n", "lost", loss.c_str());
  }
  if (!table) Print({{"schema_version", 1}, {"losses", volume->losses()}, {"files", files}});
  return status;
}

constexpr int kViolated = 1;

constexpr command_line::Meaning kMeanings[] = {
    {"bad-option", kUsage, "docs/zlfs.md lists options and values"},
    {"unknown-option", kUsage, "docs/zlfs.md lists the options"},
    {"bad-label", kUsage, "use a shorter label"},
    {"bad-name", kUsage, "names are absolute, such as /cold/1"},
    {"missing", kRefused, "check the name; zlfs makes no devices"},
    {"busy", kRefused, "a database or another zlfs uses it: wait for it to end"},
    {"not-empty", kRefused,
     "make sure that the data is not needed; then zlfs mkfs --erase=IDENTITY"},
    {"too-few-zones", kRefused, "use a larger namespace, or one of smaller zones"},
    {"limits-too-small", kRefused, "use a device that allows more active and open zones"},
    {"conventional-zone", kRefused, "name a namespace that has sequential zones only"},
    {"wrong-magic", kRefused, "the device holds no zlfs: zlfs mkfs makes one"},
    {"newer-version", kRefused, "a newer zlfs made it: use that one"},
    {"older-version", kRefused, "an older zlfs made it: use that one, or zlfs mkfs"},
    {"wrong-device", kRefused, "it was copied from another device: zlfs mkfs makes a new one"},
    {"exists", kRefused, "choose another name: files are never overwritten"},
    {"no-space", kFailed, "zlfs df shows the free space; delete files, or import less"},
    {"corrupt-", kFailed, "zlfs fsck shows which invariant does not hold"},
    {"lost-data", kFailed, "the device lost data that it had flushed: see its error log"},
    {"no-metadata-zone", kFailed, "no metadata zone can be written: zlfs salvage copies the files"},
    {"lost-log", kFailed,
     "zlfs salvage copies the best readable state; zlfs fsck --repair continues with it"},
    {"destination", kFailed, "check free space, limits and rights of the folder, or name another"},
    {"lost-content", kFailed, "zlfs fsck names the files and ranges that are lost"},
    {"zone-", kFailed, "the device gave up zones: zlfs df, nvme zns report-zones"}};

constexpr command_line::Program kProgram = {
    .name = "zlfs",
    .what = "Makes, fills and inspects volumes of zlfs, a RocksDB file system on zoned devices.",
    .help = "zlfs --help, zlfs COMMAND --help",
    .meanings = kMeanings};

void AddFormat(CLI::App* command, Arguments* arguments) {
  command->add_option("--format", arguments->format, "table or json (table)")
      ->check(CLI::IsMember({"table", "json"}));
}

void AddMkfs(CLI::App* command, Arguments* arguments) {
  command->add_option("--aux", arguments->aux, "directory to make, for LOCK, LOG and the ledger");
  command->add_option("--label", arguments->label, "at most 31 bytes");
  command->add_option("--erase", arguments->erase,
                      "identity of the device whose data may be erased");
  command_line::AddPolicies(command, &arguments->policy);
}

void AddImport(CLI::App* command, Arguments* arguments) {
  command->add_option("--aux", arguments->aux, "directory whose ledger.jsonl gets the counts");
  command->add_option("--trace", arguments->trace, "file that gets the trace of allocations");
  command->add_option("--name", arguments->name, "of the new file")->required();
  CLI::App* const content = command->add_option_group("content")->require_option(1);
  content->add_option("--from", arguments->from, "file to copy");
  CLI::Option* const size = content->add_option("--size", arguments->size,
                                                "bytes of coldfill's pattern, in blocks of 4096");
  CLI::Option* const seed = command->add_option("--seed", arguments->seed, "of the pattern");
  size->needs(seed);
  seed->needs(size);
  command->add_flag("--progress", arguments->progress, "bytes done, once a second, on stderr");
}

void AddFsck(CLI::App* command, Arguments* arguments) {
  AddFormat(command, arguments);
  command->add_flag("--repair", arguments->repair,
                    "if the newest state cannot be read, continue with an older one");
}

void AddSalvage(CLI::App* command, Arguments* arguments) {
  AddFormat(command, arguments);
  command->add_option("--to", arguments->to, "folder that gets the files")->required();
}

struct Command {
  const char* name;
  const char* what;
  const char* example;  // options after the device
  IOStatus (*run)(Arguments*);
  void (*add_options)(CLI::App*, Arguments*);
};
constexpr Command kCommands[] = {
    {"mkfs", "make an empty zlfs", " --aux=/var/lib/zlfs/db --finish-remaining-pct=10", RunMkfs,
     AddMkfs},
    {"import", "copy a file to the zones, or write cold data, and sync it",
     " --name=/cold --size=4194304 --seed=1 --progress", RunImport, AddImport},
    {"df", "how the space is used", " --format=json", RunDf, AddFormat},
    {"list", "files and their sizes", " --format=json", RunList, AddFormat},
    {"fsck", "check the invariants of docs/zlfs.md; exit status 1: some do not hold",
     " --format=json", RunFsck, AddFsck},
    {"salvage", "copy all files that can be read; exit status 1: something is lost",
     " --to=/backup/db", RunSalvage, AddSalvage},
    {"dump", "superblock, files, extents and zones as JSON", "", RunDump,
     [](CLI::App*, Arguments*) {}}};

}  // namespace
}  // namespace zlfs::tool

int main(int argc, char** argv) {
  using namespace zlfs::tool;
  Arguments arguments;
  const auto add = [&arguments](CLI::App* app, zlfs::IOStatus* status) {
    app->require_subcommand(1);
    for (const Command& command : kCommands) {
      CLI::App* const added = app->add_subcommand(command.name, command.what);
      command_line::AddDevice(added, &arguments.device);
      command.add_options(added, &arguments);
      added->footer(std::string("Example:\n  zlfs ") + command.name + " --device=nvme0n2" +
                    command.example);
      added->callback([&command, &arguments, status] { *status = command.run(&arguments); });
    }
  };
  const int exit = command_line::Main(kProgram, argc, argv, add);
  return exit == kDone && arguments.violated ? kViolated : exit;
}
