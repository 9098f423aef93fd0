// zoneprobe: measures how resets, finishes and first writes depend on the history of a zone.
//
// `label` marks an empty device for zoneprobe; `run` refuses devices without a label. `run` uses
// only empty zones and leaves them empty.

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>

#include "command_line/program.h"
#include "zlfs/zoned/open.h"
#include "zoneprobe/label.h"
#include "zoneprobe/probe.h"
#include "zoneprobe/report.h"

namespace zoneprobe {
namespace {

using zlfs::IOStatus;

using command_line::kFailed;
using command_line::kRefused;
using command_line::kUsage;

constexpr command_line::Meaning kMeanings[] = {
    {"bad-spec", kUsage, "zoneprobe run --help lists names, units and limits"},
    {"unknown-option", kUsage, "name a device as nvme0n2, /dev/nvme0n2, file:PATH?… or mem:NAME?…"},
    {"not-empty", kRefused,
     "zoneprobe erases nothing: reset the zones yourself if their data is not needed"},
    {"not-labelled", kRefused, "zoneprobe label marks an empty device"},
    {"not-recorded", kFailed, "is the disk full? the device was written"},
    {"too-few-zones", kRefused, "use fewer repeats, or a namespace with more zones"}};

constexpr command_line::Program kProgram = {
    .name = "zoneprobe",
    .what = "Times resets, finishes and first writes of zones by their history.",
    .help = "zoneprobe COMMAND --help",
    .meanings = kMeanings,
    .on_one_line = true};

struct Arguments {
  std::string device;
  std::string label;
  std::string resets = "0,block,6.25,12.5,25,50,100";
  std::string finishes = "0,block,6.25,12.5,25,50,all-but-block";
  std::string report_file;
  std::string ledger_file;
  Options options;
};

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

// Leaves `file` null if `name` is empty.
IOStatus Open(const std::string& name, const char* mode, File* file) {
  if (name.empty()) return IOStatus::OK();
  file->reset(std::fopen(name.c_str(), mode));
  return *file ? IOStatus::OK() : zlfs::MakeSystemError(errno, name);
}

// Reports errors of earlier writes, too.
IOStatus CloseChecked(const std::string& name, File* file) {
  if (!*file) return IOStatus::OK();
  const bool failed = std::ferror(file->get()) != 0;
  if (std::fclose(file->release()) == 0 && !failed) return IOStatus::OK();
  return zlfs::MakeError("not-recorded", name + " cannot be written");
}

IOStatus Label(const Arguments& arguments) {
  std::unique_ptr<zlfs::ZonedDevice> device;
  RETURN_IF_ERROR(zlfs::OpenDevice(arguments.device, zlfs::Access::kReadWrite, nullptr, &device));
  std::vector<zlfs::ZoneInfo> zones;
  RETURN_IF_ERROR(device->Report(0, device->geometry().zone_count, &zones));
  for (const zlfs::ZoneInfo& zone : zones) {
    if (zone.condition != zlfs::ZoneCondition::kEmpty) {
      return zlfs::MakeError("not-empty", arguments.device + ": a zone is not empty");
    }
  }
  return WriteLabel(device.get(), arguments.label);
}

IOStatus Run(Arguments* arguments) {
  const auto resets = ParseOccupancies(arguments->resets);
  const auto finishes = ParseOccupancies(arguments->finishes);
  if (!resets || !finishes) {
    return zlfs::MakeError(
        zlfs::DeviceError::kBadSpec,
        "an occupancy must be block, all-but-block or 0 to 100, and may occur once");
  }
  arguments->options.resets = *resets;
  arguments->options.finishes = *finishes;
  std::unique_ptr<zlfs::ZonedDevice> device;
  RETURN_IF_ERROR(zlfs::OpenDevice(arguments->device, zlfs::Access::kReadWrite, nullptr, &device));
  RETURN_IF_ERROR(CheckLabel(device.get()));
  Probe probe(device.get(), arguments->options);
  RETURN_IF_ERROR(probe.Prepare());
  // A refused run keeps the report of an earlier one.
  File csv;
  File ledger;
  RETURN_IF_ERROR(Open(arguments->report_file, "w", &csv));
  RETURN_IF_ERROR(Open(arguments->ledger_file, "a", &ledger));
  Report report(probe.treatments(), csv.get());
  const IOStatus status = probe.Run([&report](const Sample& sample) { report.Add(sample); });
  // A failed run is recorded too: the device was written.
  if (ledger) std::fprintf(ledger.get(), "%s\n", Counts(*device).dump().c_str());
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(CloseChecked(arguments->ledger_file, &ledger));
  RETURN_IF_ERROR(CloseChecked(arguments->report_file, &csv));
  std::printf("%s\n", report.Summary(probe, *device).dump().c_str());
  return IOStatus::OK();
}

void AddRunOptions(CLI::App* run, Arguments* arguments) {
  Options& options = arguments->options;
  run->add_option("--occupancies", arguments->resets,
                  "occupancies before a reset: percent of capacity, block, all-but-block");
  run->add_option("--finish_occupancies", arguments->finishes,
                  "occupancies before a finish and a reset");
  run->add_option("--repeats", options.repeats, "cycles of each treatment")->required();
  run->add_option("--first_writes", options.first_writes, "timed writes after each reset")
      ->required();
  run->add_option("--write_size", options.write_size, "bytes of a timed write (one block)");
  run->add_option("--fill_size", options.fill_size, "bytes of a write of a fill (131072)");
  run->add_option("--seed", options.seed, "seed of the order of zones and treatments")->required();
  run->add_option("--report_file", arguments->report_file, "CSV file with one line per command");
  run->add_option("--ledger_file", arguments->ledger_file,
                  "JSON file; one line with the device's counters is appended");
}

void AddCommands(CLI::App* app, Arguments* arguments, IOStatus* status) {
  app->require_subcommand(1);
  CLI::App* const label =
      app->add_subcommand("label", "write a label to the first zone of an empty device");
  command_line::AddDevice(label, &arguments->device);
  label->add_option("--label", arguments->label, "at most 31 bytes")->required();
  label->callback([arguments, status] { *status = Label(*arguments); });
  CLI::App* const run =
      app->add_subcommand("run", "measure on the empty zones of a labelled device");
  command_line::AddDevice(run, &arguments->device);
  AddRunOptions(run, arguments);
  run->callback([arguments, status] { *status = Run(arguments); });
}

}  // namespace
}  // namespace zoneprobe

int main(int argc, char** argv) {
  using namespace zoneprobe;
  Arguments arguments;
  return command_line::Main(kProgram, argc, argv,
                            [&arguments](CLI::App* app, zlfs::IOStatus* status) {
                              AddCommands(app, &arguments, status);
                            });
}
