// zlfs: makes, fills and inspects volumes. docs/zlfs.md describes what they are.

#include <string>

#include "command_line/program.h"
#include "zlfs/tool/commands.h"

namespace zlfs::tool {
namespace {

using enum command_line::Exit;

constexpr int kViolated = 1;

constexpr command_line::Meaning kMeanings[] = {
    {"bad-spec", kUsage, "name a device as nvme0n2, /dev/nvme0n2, file:PATH?… or mem:NAME?…"},
    {"bad-option", kUsage, "docs/zlfs.md lists options and values"},
    {"unknown-option", kUsage, "docs/zlfs.md lists the options"},
    {"bad-label", kUsage, "use a shorter label"},
    {"bad-name", kUsage, "names are absolute, such as /cold/1"},
    {"missing", kRefused, "check the name; zlfs makes no devices"},
    {"not-zoned", kRefused, "name a zoned namespace: lsblk -o NAME,ZONED"},
    {"bad-image", kRefused, "the file is no emulated device, or has another shape"},
    {"busy", kRefused, "a database or another zlfs writes it: wait for it to end"},
    {"permission", kRefused, "run as root, or give yourself access to the device"},
    {"not-empty", kRefused, "be sure that nobody needs the data; then mkfs --erase=IDENTITY"},
    {"too-few-zones", kRefused, "use a larger namespace, or one of smaller zones"},
    {"limits-too-small", kRefused, "use a device that allows more active and open zones"},
    {"conventional-zone", kRefused, "name a namespace that has sequential zones only"},
    {"wrong-magic", kRefused, "the device holds no zlfs: zlfs mkfs makes one"},
    {"newer-version", kRefused, "it was made by a newer zlfs: use that one"},
    {"wrong-device", kRefused, "it was copied from another device: zlfs mkfs makes a new one"},
    {"exists", kRefused, "choose another name: files are never overwritten"},
    {"no-space", kFailed, "zlfs df tells what is free; delete something, or import less"},
    {"corrupt-", kFailed, "zlfs fsck tells which invariant does not hold"},
    {"lost-data", kFailed, "the device lost what it had flushed: see its error log"},
    {"zone-", kFailed, "the device gave zones up: zlfs df, nvme zns report-zones"},
    {"", kFailed, "see the kernel's log"}};

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
  command->add_option("--erase", arguments->erase, "identity of a device whose data may go");
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

struct Command {
  const char* name;
  const char* what;
  const char* example;  // options beside the device
  IOStatus (*run)(Arguments*);
  void (*add_options)(CLI::App*, Arguments*);
};
constexpr Command kCommands[] = {
    {"mkfs", "make an empty zlfs", " --aux=/var/lib/zlfs/db --finish-remaining-pct=10", RunMkfs,
     AddMkfs},
    {"import", "copy a file onto the zones, or write cold data, synced",
     " --name=/cold --size=4194304 --seed=1 --progress", RunImport, AddImport},
    {"df", "how the space is used", " --format=json", RunDf, AddFormat},
    {"list", "files and their sizes", " --format=json", RunList, AddFormat},
    {"fsck", "check every invariant of docs/zlfs.md; exit status 1: some do not hold",
     " --format=json", RunFsck, AddFormat},
    {"dump", "superblock, files, extents and zones as JSON", "", RunDump,
     [](CLI::App*, Arguments*) {}}};

void AddCommands(CLI::App* app, Arguments* arguments, IOStatus* status) {
  app->require_subcommand(1);
  for (const Command& command : kCommands) {
    CLI::App* const added = app->add_subcommand(command.name, command.what);
    command_line::AddDevice(added, &arguments->device);
    command.add_options(added, arguments);
    added->footer(std::string("Example:\n  zlfs ") + command.name + " --device=nvme0n2" +
                  command.example);
    added->callback([&command, arguments, status] { *status = command.run(arguments); });
  }
}

}  // namespace
}  // namespace zlfs::tool

int main(int argc, char** argv) {
  using namespace zlfs::tool;
  Arguments arguments;
  const auto add = [&arguments](CLI::App* app, zlfs::IOStatus* status) {
    AddCommands(app, &arguments, status);
  };
  const int exit = command_line::Main(kProgram, argc, argv, add);
  return arguments.violated ? kViolated : exit;
}
