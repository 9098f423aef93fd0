// zlfs: makes, fills and inspects volumes. docs/zlfs.md describes what they are.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <string_view>

#include "zlfs/tool/commands.h"

namespace zlfs::tool {
namespace {

enum Exit : int { kDone = 0, kViolated = 1, kUsage = 2, kRefused = 3, kFailed = 4 };

struct Meaning {
  std::string_view name;  // which a status' message begins with
  Exit exit;
  std::string_view hint;
};

// Everything else is kFailed.
constexpr Meaning kMeanings[] = {
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

Exit Complain(const IOStatus& status) {
  const std::string text = status.getState() == nullptr ? status.ToString() : status.getState();
  const auto* const meaning =
      std::find_if(std::begin(kMeanings), std::end(kMeanings),
                   [&text](const Meaning& one) { return text.starts_with(one.name); });
  std::fprintf(stderr, "zlfs: %s\nhint: %s\n", text.c_str(), meaning->hint.data());
  return meaning->exit;
}

// Policy options of mkfs, named as in URIs (but with hyphens), and what they say.
constexpr std::pair<const char*, const char*> kPolicies[] = {
    {"finish_remaining_pct", "finish a zone that is left with less than this share free (0)"},
    {"finish_occupancy_pct", "the same as its complement (100)"},
    {"on_active_limit", "share, finish or wait (share)"},
    {"lifetimes", "on or off (on)"},
    {"gc", "on or off (on)"},
    {"gc_start_pct", "collect when less than this share of the zones is empty (5)"},
    {"gc_victim", "garbage or cost-benefit (garbage)"}};

class Program {
 public:
  int Run(int argc, char** argv) {
    app_.require_subcommand(1);
    AddMkfs();
    AddImport();
    AddReading("df", "how the space is used", [this] { status_ = RunDf(device_, format_); });
    AddReading("list", "files and their sizes", [this] { status_ = RunList(device_, format_); });
    AddReading("fsck", "check every invariant of docs/zlfs.md; exit status 1: some do not hold",
               [this] { status_ = RunFsck(device_, format_, &violated_); });
    Add("dump", "superblock, files, extents and zones as JSON", "zlfs dump --device=nvme0n2",
        [this] { status_ = RunDump(device_); });
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& done) {
      return app_.exit(done);
    } catch (const CLI::ParseError& error) {
      std::fprintf(stderr, "zlfs: %s\nhint: zlfs --help, zlfs COMMAND --help\n", error.what());
      return kUsage;
    }
    if (!status_.ok()) return Complain(status_);
    return violated_ ? kViolated : kDone;
  }

 private:
  CLI::App* Add(const char* name, const std::string& what, const std::string& example,
                std::function<void()> run) {
    CLI::App* const command = app_.add_subcommand(name, what);
    command->add_option("--device", device_, "nvme0n2, /dev/nvme0n2, file:PATH?… or mem:NAME?…")
        ->required();
    command->footer("Example:\n  " + example);
    command->callback(std::move(run));
    return command;
  }

  // Works beside a running database.
  void AddReading(const std::string& name, const std::string& what, std::function<void()> run) {
    Add(name.c_str(), what, "zlfs " + name + " --device=nvme0n2 --format=json", std::move(run))
        ->add_option("--format", format_, "table or json (table)")
        ->transform(CLI::Transformer(
            std::map<std::string, Format>{{"table", Format::kTable}, {"json", Format::kJson}}));
  }

  void AddMkfs() {
    CLI::App* const command =
        Add("mkfs", "make an empty zlfs",
            "zlfs mkfs --device=nvme0n2 --aux=/var/lib/zlfs/db --finish-remaining-pct=10", [this] {
              mkfs_.device = device_;
              status_ = RunMkfs(mkfs_);
            });
    command->add_option("--aux", mkfs_.aux, "directory to make, for LOCK, LOG and the ledger");
    command->add_option("--label", mkfs_.label, "at most 31 bytes");
    command->add_option("--erase", mkfs_.erase, "identity of a device whose data may go");
    for (const auto& [name, what] : kPolicies) {
      std::string flag = std::string("--") + name;
      std::replace(flag.begin(), flag.end(), '_', '-');
      command->add_option_function<std::string>(
          flag, [this, key = name](const std::string& value) { mkfs_.policy[key] = value; }, what);
    }
  }

  void AddImport() {
    CLI::App* const command =
        Add("import", "copy a file onto the zones, or write cold data, synced",
            "zlfs import --device=nvme0n2 --name=/cold --size=4194304 --seed=1 --progress", [this] {
              if (import_.from.empty() && !import_.size) {
                throw CLI::RequiredError("--from or --size");
              }
              import_.device = device_;
              status_ = RunImport(import_);
            });
    command->add_option("--aux", import_.aux, "directory whose ledger.jsonl gets the counts");
    command->add_option("--name", import_.name, "of the new file")->required();
    CLI::Option* const from = command->add_option("--from", import_.from, "file to copy");
    CLI::Option* const size = command->add_option("--size", import_.size,
                                                  "bytes of coldfill's pattern, in blocks of 4096");
    CLI::Option* const seed = command->add_option("--seed", import_.seed, "of the pattern");
    size->needs(seed)->excludes(from);
    seed->needs(size);
    command->add_flag("--progress", import_.progress, "bytes done, once a second, on stderr");
  }

  CLI::App app_{
      "Makes, fills and inspects volumes of zlfs, a RocksDB file system on zoned devices.", "zlfs"};
  std::string device_;
  Format format_ = Format::kTable;
  MkfsArguments mkfs_;
  ImportArguments import_;
  IOStatus status_;
  bool violated_ = false;
};

}  // namespace
}  // namespace zlfs::tool

int main(int argc, char** argv) {
  try {
    return zlfs::tool::Program().Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zlfs: %s\nhint: this is a defect\n", error.what());
    return zlfs::tool::kFailed;
  }
}
