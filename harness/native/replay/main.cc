// zlfs-replay: replays a recorded trace of allocations at the recorded setting or at another one,
// and prints the resulting ledger of zlfs. See docs/replay.md.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command_line/program.h"
#include "replay/counterfactual.h"
#include "replay/model.h"
#include "replay/recorded.h"
#include "replay/requests.h"
#include "replay/timed.h"
#include "replay/trace.h"
#include "zlfs/format/superblock.h"
#include "zlfs/fs/volume.h"

namespace zlfs::replay {
namespace {

using Json = nlohmann::json;

using command_line::kFailed;
using command_line::kRefused;
using command_line::kUsage;

struct Arguments {
  std::string trace;
  bool info = false;
  bool own_rules = false;
  std::string model;  // file
  std::uint64_t dilation = 1;
  std::optional<std::uint64_t> zone_capacity;
  std::optional<std::uint32_t> zones;
  std::optional<std::uint32_t> max_active;
  OptionMap policy;
};

constexpr command_line::Meaning kMeanings[] = {
    {"bad-option", kUsage, "docs/zlfs.md lists options and values"},
    {"unknown-option", kUsage, "docs/zlfs.md lists the options"},
    {"bad-setting", kUsage, "see zlfs-replay --help"},
    {"missing", kRefused, "name a trace that zlfs recorded (option trace of its URI)"},
    {"bad-trace", kRefused, "the file is damaged, or is not a trace of zlfs"},
    {"newer-trace", kRefused, "a newer zlfs recorded it: use the zlfs-replay of that version"},
    {"unfinished", kRefused, "the recorded program was killed: record again"},
    {"device-trouble", kRefused,
     "the device failed during the recording: record again on a sound device"},
    {"bad-model", kUsage, "docs/model.md describes models of drives"},
    {"no-times", kRefused, "it was recorded without times: record again"},
    {"model", kFailed, "this is a defect"},
    {"diverged", kFailed, "another version of the allocator recorded it: record again"},
    {"", kFailed, "this is a defect"}};

constexpr command_line::Program kProgram = {
    .name = "zlfs-replay",
    .what = "Replays a recorded trace of zlfs's allocations at any setting. Prints JSON.",
    .help = "zlfs-replay --help",
    .meanings = kMeanings};

Json PolicyJson(const Policy& policy) {
  Json json;
  for (const PolicyField& field : kPolicyFields) {
    const std::uint8_t value = policy.*field.value;
    if (field.words.empty()) json[field.name] = value;
    if (!field.words.empty()) json[field.name] = field.words[value];
  }
  return json;
}

Json SettingJson(const Setting& setting) {
  Json json = PolicyJson(setting.policy);
  json["block_size"] = setting.block_size;
  json["zone_capacity"] = setting.zone_capacity;
  json["zones"] = setting.zones;
  json["metadata_zones"] = setting.metadata_zones;
  // The device's limit includes the zones of the metadata log.
  json["max_active"] = setting.active_budget == 0 ? 0 : setting.active_budget + kMetadataActive;
  return json;
}

// Applies the arguments to the recorded setting. A new zone capacity keeps the total capacity,
// unless --zones sets the number of zones.
IOStatus Apply(const Arguments& arguments, Setting* setting) {
  RETURN_IF_ERROR(ChangePolicy(arguments.policy, &setting->policy));
  if (arguments.zone_capacity) {
    const std::uint64_t capacity = *arguments.zone_capacity;
    if (capacity == 0 || capacity % setting->block_size != 0) {
      return IOStatus::InvalidArgument("bad-setting", "a zone capacity must be a multiple of " +
                                                          std::to_string(setting->block_size));
    }
    const std::uint64_t total = setting->zone_capacity * setting->zones;
    setting->zones = static_cast<std::uint32_t>(total / capacity);
    setting->zone_capacity = capacity;
  }
  if (arguments.zones) setting->zones = *arguments.zones;
  if (arguments.max_active) {
    const std::uint32_t limit = *arguments.max_active;
    if (limit != 0 && limit < kMinActiveZones) {
      return IOStatus::InvalidArgument(
          "bad-setting",
          "zlfs needs " + std::to_string(kMinActiveZones) + " active zones, or no limit (0)");
    }
    setting->active_budget = limit == 0 ? 0 : limit - kMetadataActive;
  }
  return IOStatus::OK();
}

Json SpaceJson(const SpaceUse& space) {
  Json json = nlohmann::json(space);
  json["kept"] = space.kept;
  return json;
}

// Returns the ledger's fields that the replay computes and that differ from the recorded values.
std::vector<std::string> Differences(const Json& replayed, const Json& recorded) {
  std::vector<std::string> names;
  const auto compare = [&](const char* pointer) {
    const Json::json_pointer at(pointer);
    if (replayed.at(at) != recorded.at(at)) names.emplace_back(pointer);
  };
  for (const std::string_view cause : kCauseNames) {
    if (cause != "metadata") compare(("/written/" + std::string(cause)).c_str());
  }
  for (const std::string_view cause : kFinishNames) {
    if (cause != "metadata") compare(("/finishes/" + std::string(cause)).c_str());
  }
  for (const char* const name : {"/resets/data", "/collected_zones", "/space", "/zones"}) {
    compare(name);
  }
  return names;
}

// The model's counts as a line of the ledger. The metadata log's counts are copied from the record.
// `space` differs from the ledger's after a remount (RecordedPlayer::space).
Json MountJson(const Model& model, const Mount& mount, const SpaceUse& space, bool recorded_rules) {
  Json line = LedgerCounts(model.totals(), model.collected_zones(), SpaceOf(model.allocator()),
                           model.retired());
  line["zones"] = LedgerZones(model.allocator());
  const Json recorded = Json::parse(mount.ledger);
  if (recorded_rules) line["differences"] = Differences(line, recorded);
  line["space"] = space;
  line["written"]["metadata"] = recorded["written"]["metadata"];
  line["resets"]["metadata"] = recorded["resets"]["metadata"];
  line["finishes"]["metadata"] = recorded["finishes"]["metadata"];
  line["flushes"] = recorded["flushes"];
  line["mounted"] = recorded["mounted"];
  return line;
}

IOStatus ReadModel(const std::string& path, zonemodel::Parameters* parameters) {
  std::ifstream file(path);
  if (!file) return IOStatus::InvalidArgument("bad-model", path + " cannot be read");
  try {
    *parameters = zonemodel::ReadParameters(zonemodel::Json::parse(file));
  } catch (const zonemodel::BadInput& error) {
    return IOStatus::InvalidArgument("bad-model", error.what());
  } catch (const zonemodel::Json::exception& error) {
    return IOStatus::InvalidArgument("bad-model", error.what());
  }
  if (!parameters->zones) return IOStatus::InvalidArgument("bad-model", "the drive has no zones");
  return IOStatus::OK();
}

// Whether the mount only imported cold data: its times are not counted.
bool IsCold(const Mount& mount) {
  const Json recorded = Json::parse(mount.ledger);
  const Json& written = recorded["written"];
  return std::all_of(std::begin(kCauseNames), std::end(kCauseNames), [&](std::string_view cause) {
    return cause == "metadata" || cause == "import" || written[std::string(cause)]["payload"] == 0;
  });
}

IOStatus Info(const std::vector<Mount>& mounts) {
  Json result = {{"schema_version", 1}, {"mounts", Json::array()}};
  for (const Mount& mount : mounts) {
    Json entry = SettingJson(SettingOf(mount));
    entry["events"] = mount.events.size();
    entry["recorded"] = Json::parse(mount.ledger);
    result["mounts"].push_back(std::move(entry));
  }
  std::puts(result.dump().c_str());
  return IOStatus::OK();
}

IOStatus Run(const Arguments& arguments) {
  std::vector<Mount> mounts;
  RETURN_IF_ERROR(ReadTrace(arguments.trace, &mounts));
  for (const Mount& mount : mounts) {
    if (mount.zones.size() < kMinZones) {
      return IOStatus::Corruption("bad-trace", "the device has too few zones");
    }
  }
  if (arguments.info) return Info(mounts);
  Setting first = SettingOf(mounts.front());
  const Json as_recorded = SettingJson(first);
  RETURN_IF_ERROR(Apply(arguments, &first));
  const bool changed = SettingJson(first) != as_recorded;
  const bool recorded_rules = !changed && !arguments.own_rules;
  Json result = {{"schema_version", 1},
                 {"setting", SettingJson(first)},
                 {"recorded_setting", as_recorded},
                 {"counterfactual", changed},
                 {"rules", recorded_rules ? "recorded" : "own"},
                 {"status", "ok"},
                 {"mounts", Json::array()}};
  zonemodel::Parameters drive;
  Requests requests;
  Times times;
  const bool timed = !arguments.model.empty();
  if (timed) {
    RETURN_IF_ERROR(ReadModel(arguments.model, &drive));
    for (Mount& mount : mounts) {
      if (mount.stamps.size() != mount.events.size()) {
        return IOStatus::NotSupported("no-times", "version " + std::to_string(mount.version));
      }
      ToTimeOfDrive(arguments.dilation, &mount);
    }
  }
  Model model(timed ? &requests : nullptr);
  RecordedPlayer recorded(&model);
  CounterfactualPlayer counterfactual(&model);
  std::optional<Infeasible> infeasible;
  if (first.zones < kMinZones) {
    infeasible =
        Infeasible{.cause = "mkfs", .space = {.capacity = first.zone_capacity * first.zones}};
  }
  for (std::size_t i = 0; i < mounts.size() && !infeasible; ++i) {
    Setting setting = SettingOf(mounts[i]);
    RETURN_IF_ERROR(Apply(arguments, &setting));
    if (recorded_rules) RETURN_IF_ERROR(recorded.Play(mounts[i]));
    if (!recorded_rules) infeasible = counterfactual.Play(mounts[i], setting);
    const SpaceUse space = recorded_rules ? recorded.space() : SpaceOf(model.allocator());
    result["mounts"].push_back(MountJson(model, mounts[i], space, recorded_rules));
    if (timed && !infeasible && !IsCold(mounts[i])) {
      RETURN_IF_ERROR(TimedPlayer(drive, setting, requests, &times).Play());
    }
  }
  if (timed) result["modelled"] = times.Json();
  if (timed) result["modelled"]["model"] = drive.name;
  result["wear"] = model.wear();
  if (infeasible) {
    result["status"] = "infeasible";
    result["infeasible"] = {{"mount", result["mounts"].size()},     {"event", infeasible->event},
                            {"written", infeasible->written},       {"cause", infeasible->cause},
                            {"asked", infeasible->asked},           {"least_zones", kMinZones},
                            {"space", SpaceJson(infeasible->space)}};
  }
  std::puts(result.dump().c_str());
  return IOStatus::OK();
}

void AddOptions(CLI::App* app, Arguments* arguments) {
  app->footer(
      "Example:\n  zlfs-replay trace.alc --zone-capacity=33554432 --finish-occupancy-pct=80");
  app->add_option("trace", arguments->trace, "file that zlfs recorded")->required();
  app->add_flag("--info", arguments->info, "print the recorded settings and replay nothing");
  app->add_flag("--own-rules", arguments->own_rules,
                "replay the recorded setting by the rules for other settings");
  app->add_option("--model", arguments->model,
                  "JSON of a modelled drive: adds times to the result");
  app->add_option("--dilation", arguments->dilation,
                  "how many seconds of the recording a second of its drive took: 1 unless modelled")
      ->check(CLI::Range(1U, 1U << 24));
  app->add_option("--zone-capacity", arguments->zone_capacity,
                  "bytes; the number of zones follows from the recorded capacity");
  app->add_option("--zones", arguments->zones, "number of zones")->check(CLI::Range(1U, 1U << 24));
  app->add_option("--max-active", arguments->max_active, "limit of active zones; 0: no limit");
  // --max-active above replaces the policy's max_active: both limit the same budget of active
  // zones.
  command_line::AddPolicies(app, &arguments->policy, "max_active");
}

}  // namespace
}  // namespace zlfs::replay

int main(int argc, char** argv) {
  using namespace zlfs::replay;
  Arguments arguments;
  return command_line::Main(kProgram, argc, argv,
                            [&arguments](CLI::App* app, zlfs::IOStatus* status) {
                              AddOptions(app, &arguments);
                              app->callback([&arguments, status] { *status = Run(arguments); });
                            });
}
