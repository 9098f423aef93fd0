#include "model/load/job.h"

#include <algorithm>
#include <set>

#include "model/events.h"

namespace zonemodel {
namespace {

constexpr std::uint32_t kMostDepth = 1U << 14;
constexpr Bytes kLargest = 16 << 20;  // bytes of a command

Operation OperationOf(const std::string& name, const Fields& fields, const std::string& field) {
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    if (kOperationNames[i] == name) return static_cast<Operation>(i);
  }
  throw fields.Refuse(field, "has the unknown command '" + name + "'",
                      "read, write, append, flush, report, open, close, finish, reset, trim");
}

ZoneRange ReadRange(Fields* fields, const ZoneParameters& zones) {
  const Json& value = fields->Get("zones");
  if (!value.is_array() || value.size() != 2 || !IsCount(value[0]) || !IsCount(value[1]) ||
      value[0] >= value[1]) {
    throw fields->Refuse("zones", "is not a range", "[first, end]; end is not part of it");
  }
  if (value[1].get<std::uint64_t>() > zones.count) {
    throw fields->Refuse("zones", "is beyond the drive",
                         "it has " + std::to_string(zones.count) + " zones");
  }
  return {.first = value[0].get<std::uint32_t>(), .end = value[1].get<std::uint32_t>()};
}

// Reads the fields fill_pct or written, state and used.
Fill ReadFill(Fields* fields, const ZoneParameters& zones, Bytes block) {
  Fill fill;
  if (fields->Has("written")) {
    fill.written = fields->GetBytes("written");
  } else {
    const std::uint64_t share = fields->GetShare("fill_pct");
    fill.written =
        static_cast<Bytes>(static_cast<unsigned __int128>(zones.capacity) * share / kWhole);
  }
  fill.written -= fill.written % block;
  if (fill.written > zones.capacity) {
    throw fields->Refuse("written", "is above the capacity of a zone",
                         std::to_string(zones.capacity) + " B");
  }
  std::string state = fill.written == 0 ? "empty" : "closed";
  if (fill.written == zones.capacity) state = "full";
  if (fields->Has("state")) state = fields->GetText("state");
  const auto wrong = [&] {
    return fields->Refuse("state", "does not fit the bytes written",
                          "empty, closed, open or finished below capacity, full at capacity");
  };
  const bool whole = fill.written == zones.capacity;
  if (state == "empty") {
    if (fill.written != 0) throw wrong();
  } else if (state == "full") {
    if (!whole) throw wrong();
    fill.state = ZoneState::kFull;
  } else if (state == "finished") {
    fill.state = ZoneState::kFull;
    fill.finished = true;
  } else if (state == "closed" || state == "open") {
    if (whole) throw wrong();
    fill.state = state == "open" ? ZoneState::kExplicit : ZoneState::kClosed;
  } else {
    throw fields->Refuse("state", "is unknown", "empty, closed, open, full or finished");
  }
  fill.used = fields->GetBool("used", false);
  return fill;
}

Preparation ReadPreparation(const Json& json, const Parameters& parameters) {
  Fields fields(json, "prepare");
  Preparation preparation;
  if (fields.Has("conventional")) {
    const std::string order = fields.GetText("conventional");
    if (!parameters.ftl || (order != "sequential" && order != "random")) {
      throw fields.Refuse("conventional", "is not possible",
                          "sequential or random, on a drive with ftl");
    }
    preparation.random = order == "random";
    if (fields.Has("times")) {
      preparation.times = static_cast<std::uint32_t>(fields.GetCount("times", 1, 100));
    }
  } else {
    if (!parameters.zones) throw fields.Refuse("zones", "are not there", "the drive has no zones");
    preparation.zones = ReadRange(&fields, *parameters.zones);
    preparation.fill = ReadFill(&fields, *parameters.zones, parameters.front.logical_block);
  }
  fields.Finish();
  return preparation;
}

Step ReadStep(const Json& json, const std::string& client, const ZoneParameters& zones) {
  if (json.is_string()) {
    const Json object = {{"command", json}};
    return ReadStep(object, client, zones);
  }
  Fields fields(json, client + ".sequence");
  Step step{.operation = OperationOf(fields.GetText("command"), fields, "command"), .up_to = {}};
  if (fields.Has("times")) {
    step.times = static_cast<std::uint32_t>(fields.GetCount("times", 1));
  }
  if (fields.Has("to_pct")) {
    step.up_to = static_cast<Bytes>(static_cast<unsigned __int128>(zones.capacity) *
                                    fields.GetShare("to_pct") / kWhole);
  }
  if (step.operation == Operation::kTrim) {
    throw fields.Refuse("command", "is only for conventional namespaces", "use mix");
  }
  fields.Finish();
  return step;
}

void ReadMix(Fields* fields, ClientJob* client) {
  const Json& mix = fields->Get("mix");
  if (!mix.is_object() || mix.empty()) {
    throw fields->Refuse("mix", "has no weights", R"(for example {"read": 70, "write": 30})");
  }
  for (const auto& [name, weight] : mix.items()) {
    if (!IsCount(weight) || weight.get<std::uint64_t>() > 1'000'000) {
      throw fields->Refuse("mix", "has a weight that is not a count",
                           "whole numbers up to 1,000,000");
    }
    const Operation operation = OperationOf(name, *fields, "mix");
    const bool zoned_only = operation >= Operation::kOpen && operation <= Operation::kReset;
    if (client->conventional ? zoned_only || operation == Operation::kAppend
                             : operation == Operation::kTrim) {
      throw fields->Refuse("mix", "has a command of the other namespace: " + name,
                           "zones have no trim, conventional namespaces no zone commands");
    }
    client->mix.at(static_cast<std::size_t>(operation)) = weight.get<std::uint32_t>();
  }
  if (std::ranges::all_of(client->mix, [](std::uint32_t weight) { return weight == 0; })) {
    throw fields->Refuse("mix", "has only weights of 0", "write a weight above 0");
  }
}

void ReadPlace(Fields* fields, const Parameters& parameters, ClientJob* client) {
  if (!client->conventional) {
    client->zones = ReadRange(fields, *parameters.zones);
    const std::uint32_t count = client->zones.end - client->zones.first;
    const bool appends = client->Sends(Operation::kAppend);
    client->active = appends ? 1 : std::min(client->depth, count);
    if (client->stack.merge > 0) client->active = 1;
    if (fields->Has("active")) {
      client->active = static_cast<std::uint32_t>(fields->GetCount("active", 1, count));
    }
    if (client->Sends(Operation::kWrite) && client->depth > client->active &&
        client->stack.merge == 0) {
      throw fields->Refuse("depth", "is above the zones that are written at a time",
                           "use more zones, appends, or a stack that merges");
    }
    return;
  }
  client->range_end = parameters.ftl->capacity;
  if (!fields->Has("range")) return;
  const Json& range = fields->Get("range");
  if (!range.is_array() || range.size() != 2) {
    throw fields->Refuse("range", "is not a range", R"(for example ["0B", "4GiB"])");
  }
  client->range_begin = fields->BytesOf("range", range[0]);
  client->range_end = fields->BytesOf("range", range[1]);
  if (client->range_end > parameters.ftl->capacity ||
      client->range_begin + client->size > client->range_end) {
    throw fields->Refuse("range", "is beyond the drive, or below one command",
                         std::to_string(parameters.ftl->capacity) + " B");
  }
  const Bytes unit = parameters.ftl->map_unit;
  if (client->range_begin % unit != 0) {
    throw fields->Refuse("range", "begins at no whole number of map units",
                         "a map unit has " + std::to_string(unit) + " B");
  }
}

void ReadPattern(Fields* fields, ClientJob* client) {
  if (fields->Has("pattern")) {
    const std::string pattern = fields->GetText("pattern");
    if (pattern != "random" && pattern != "sequential") {
      throw fields->Refuse("pattern", "is unknown", "random or sequential");
    }
    client->sequential = pattern == "sequential";
  }
  client->run = fields->GetBytes("run", 0);
  if (fields->Has("hot")) {
    Fields hot(fields->Get("hot"), client->name + ".hot");
    client->hot_range = hot.GetShare("range_pct");
    client->hot_commands = hot.GetShare("commands_pct");
    hot.Finish();
    if (client->hot_range == 0 || client->hot_range == kWhole) {
      throw fields->Refuse("hot", "has an empty part", "range_pct between 0 and 100");
    }
  }
}

// Returns whether the client has a last command.
bool Ends(const ClientJob& client) {
  const auto sends = [&](Operation operation) { return client.Sends(operation); };
  const bool writes = sends(Operation::kWrite) || sends(Operation::kAppend);
  const bool has_bytes = writes || sends(Operation::kRead) || sends(Operation::kTrim);
  if (client.commands != 0 || (client.bytes != 0 && has_bytes)) return true;
  if (!client.sequence.empty()) return !client.repeat;
  return client.at_full == AtFull::kNext && writes && !client.conventional;
}

ClientJob ReadClient(const Json& json, const Parameters& parameters, const Job& job,
                     std::uint64_t number) {
  ClientJob client;
  Fields name(json, "client");
  client.name = name.GetText("name");
  Fields fields(json, "client " + client.name);
  fields.GetText("name");
  client.conventional = !parameters.zones;
  if (fields.Has("namespace")) {
    const std::string where = fields.GetText("namespace");
    client.conventional = where == "conventional";
    if (client.conventional ? !parameters.ftl : where != "zoned" || !parameters.zones) {
      throw fields.Refuse("namespace", "is not on this drive", "zoned or conventional");
    }
  }
  const std::string stack = fields.Has("stack") ? fields.GetText("stack") : "passthrough";
  const auto found = parameters.host.stacks.find(stack);
  if (found == parameters.host.stacks.end()) {
    throw fields.Refuse("stack", "is not in the model", "see host.stacks of the model");
  }
  client.stack = found->second;
  client.size = fields.GetBytes("size", 4096);
  const Bytes block =
      client.conventional ? parameters.ftl->map_unit : parameters.front.logical_block;
  if (client.size == 0 || client.size > kLargest || client.size % block != 0) {
    throw fields.Refuse("size", "is no size of commands",
                        "up to 16MiB, in units of " + std::to_string(block) + " B");
  }
  if (client.size > parameters.buffer / 2) {
    throw fields.Refuse("size", "is above half the write buffer",
                        std::to_string(parameters.buffer / 2) + " B at most");
  }
  const Bytes most = client.conventional ? parameters.ftl->capacity : parameters.zones->capacity;
  if (client.size > most) {
    const std::string what = client.conventional ? "the drive" : "a zone";
    throw fields.Refuse("size", "is above the capacity of " + what,
                        std::to_string(most) + " B at most");
  }
  if (fields.Has("depth")) {
    client.depth = static_cast<std::uint32_t>(fields.GetCount("depth", 1, kMostDepth));
  }
  if (fields.Has("sequence")) {
    if (client.conventional || client.depth != 1 || fields.Has("mix")) {
      throw fields.Refuse("sequence", "does not go with mix, depth or conventional namespaces",
                          "sequences play on zones, one command at a time");
    }
    for (const Json& step : fields.Get("sequence")) {
      client.sequence.push_back(ReadStep(step, fields.GetText("name"), *parameters.zones));
    }
    client.repeat = fields.GetBool("repeat", false);
    if (client.sequence.empty()) throw fields.Refuse("sequence", "is empty", "list commands");
  } else {
    ReadMix(&fields, &client);
  }
  ReadPlace(&fields, parameters, &client);
  if (fields.Has("at_full")) {
    const std::string what = fields.GetText("at_full");
    if (what != "reset" && what != "reset-command" && what != "next") {
      throw fields.Refuse("at_full", "is unknown", "reset, reset-command or next");
    }
    if (what == "reset-command") client.at_full = AtFull::kResetCommand;
    if (what == "next") client.at_full = AtFull::kNext;
  }
  if (fields.Has("refill")) {
    if (client.conventional) throw fields.Refuse("refill", "is only for zones", "remove it");
    Fields refill(fields.Get("refill"), client.name + ".refill");
    client.refill = ReadFill(&refill, *parameters.zones, parameters.front.logical_block);
    refill.Finish();
  }
  ReadPattern(&fields, &client);
  if (fields.Has("rate")) client.rate = fields.GetRate("rate");
  client.start = fields.GetTime("start", 0);
  client.end = fields.Has("duration") ? client.start + fields.GetTime("duration") : job.duration;
  client.end = std::min(client.end, job.duration);
  if (fields.Has("commands")) client.commands = fields.GetCount("commands", 1);
  client.bytes = fields.GetBytes("bytes", 0);
  client.seed = fields.Has("seed") ? fields.GetCount("seed") : job.seed * 1000 + number;
  fields.Finish();
  client.endless = !Ends(client);
  if (client.end == kNever && client.endless) {
    throw fields.Refuse("duration", "or a limit is missing", "add duration, commands or bytes");
  }
  return client;
}

}  // namespace

bool ClientJob::Sends(Operation operation) const {
  if (mix.at(static_cast<std::size_t>(operation)) > 0) return true;
  return std::any_of(sequence.begin(), sequence.end(),
                     [&](const Step& step) { return step.operation == operation; });
}

Job ReadJob(const Json& json, const Parameters& parameters) {
  Fields fields(json, "job");
  if (fields.GetCount("schema_version", 1) != 1) {
    throw fields.Refuse("schema_version", "is newer than this program", "use a newer zonelab");
  }
  Job job;
  job.name = fields.GetText("name");
  if (fields.Has("description")) fields.GetText("description");
  job.duration = fields.GetTime("duration", kNever);
  job.warmup = fields.GetTime("warmup", 0);
  if (fields.Has("seed")) job.seed = fields.GetCount("seed");
  job.zone_report = fields.GetBool("zone_report", false);
  if (fields.Has("prepare")) {
    for (const Json& one : fields.Get("prepare")) {
      job.prepare.push_back(ReadPreparation(one, parameters));
    }
  }
  std::set<std::string> names;
  std::uint64_t slots = 0;
  for (const Json& one : fields.Get("clients")) {
    job.clients.push_back(ReadClient(one, parameters, job, job.clients.size() + 1));
    slots += job.clients.back().depth;
    if (!names.insert(job.clients.back().name).second) {
      throw fields.Refuse("clients", "have the name '" + job.clients.back().name + "' twice",
                          "names are unique");
    }
  }
  if (job.clients.empty() || slots >= kMostTags) {
    throw fields.Refuse("clients", "are missing, or too many",
                        "the sum of their depths is 1 to 65,535");
  }
  fields.Finish();
  if (job.warmup >= job.duration) {
    throw fields.Refuse("warmup", "is not below duration", "leave time to count");
  }
  return job;
}

}  // namespace zonemodel
