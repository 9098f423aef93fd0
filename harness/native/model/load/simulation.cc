#include "model/load/simulation.h"

#include <algorithm>
#include <stdexcept>

namespace zonemodel {
namespace {

// Commands at one time of a client without a limit: 60 times the largest depth. A client that sends
// more gets them done in no time, so the time of its end never comes.
constexpr std::uint32_t kMostAtOnce = 1'000'000;

}  // namespace

Simulation::Simulation(const Parameters& parameters, const Job& job)
    : parameters_(parameters), job_(job), drive_(parameters, job.seed, &events_) {
  clients_.reserve(job.clients.size());
  for (const ClientJob& client : job.clients) {
    clients_.push_back({.client = Client(client, parameters, &drive_),
                        .statistics = {},
                        .held = std::vector<Held>(client.stack.merge > 0 ? client.active : 0)});
    const auto number = static_cast<std::uint32_t>(clients_.size() - 1);
    for (std::uint32_t i = 0; i < client.depth; ++i) {
      slots_.push_back({.client = number, .number = i});
    }
  }
}

void Simulation::Prepare() {
  kvmix::Random random(job_.seed, 3);
  for (const Preparation& one : job_.prepare) {
    const Fill& fill = one.fill;
    for (std::uint32_t zone = one.zones.first; zone < one.zones.end; ++zone) {
      const Status status =
          drive_.Prepare(zone, fill.state, fill.written, fill.finished, fill.used);
      if (status != Status::kOk) {
        throw BadInput("job " + job_.name + ": prepare exceeds the limits of active or open zones",
                       "prepare fewer zones that are open or closed");
      }
    }
    if (one.zones.end == 0) drive_.PrepareConventional(one.random, one.times, &random);
  }
}

Json Simulation::Run() {
  Prepare();
  for (std::uint32_t tag = 0; tag < slots_.size(); ++tag) {
    ++under_way_;
    Running& running = clients_[slots_[tag].client];
    const ClientJob& client = running.client.job();
    slots_[tag].begin = client.rate ? running.client.Due(running.due++) : client.start;
    events_.Add(slots_[tag].begin, EventKind::kTimer, 0, tag);
  }
  Time now = 0;
  while (under_way_ > 0) {
    if (events_.empty()) throw std::logic_error("the drive stands still");
    const Event event = events_.Take();
    now = event.time;
    if (event.kind() == EventKind::kDone) {
      Completed(event.tag(), now);
    } else if (event.kind() == EventKind::kTimer) {
      Issue(event.tag(), now);
    } else {
      drive_.Handle(event);
    }
  }
  return Report(now);
}

// Refuses a closed loop of commands that take no time. A rate moves the clock by itself.
void Simulation::RequireProgress(Running* running, Operation operation, Time now) const {
  const ClientJob& client = running->client.job();
  if (!client.endless || client.rate) return;
  if (now != running->moment) {
    running->moment = now;
    running->sent_at_once = 0;
  }
  if (++running->sent_at_once < kMostAtOnce) return;
  throw BadInput("job " + job_.name + ", client '" + client.name +
                     "': duration never comes, because its commands, such as " +
                     std::string(kOperationNames.at(static_cast<std::size_t>(operation))) +
                     ", take no time",
                 "set host.gap of the model above 0, or commands of the client");
}

// Sends the client's next command at `now`. The slot's `begin` may be earlier.
void Simulation::Issue(std::uint32_t tag, Time now) {
  Slot& slot = slots_[tag];
  Running& running = clients_[slot.client];
  if (now >= running.client.job().end || !running.client.Next(slot.number, &slot.command)) {
    --under_way_;
    if (now < running.client.job().end) running.ran_out = true;
    return;
  }
  RequireProgress(&running, slot.command.operation, now);
  slot.next = kNoTag;
  const StackParameters& stack = running.client.job().stack;
  now += stack.submit;
  if (!running.held.empty() && slot.command.operation == Operation::kWrite) {
    Client::Lane& lane = running.client.LaneOf(slot.number);
    lane.queued += slot.command.bytes;
    const std::uint32_t number = slot.number % static_cast<std::uint32_t>(running.held.size());
    running.held[number].waiting.push_back(tag);
    if (!running.held[number].busy) Release(&running, number, now);
    return;
  }
  Dispatch(tag, now);
}

void Simulation::Dispatch(std::uint32_t tag, Time now) {
  const Command& command = slots_[tag].command;
  const StackParameters& stack = clients_[slots_[tag].client].client.job().stack;
  Time arrival = now + stack.scheduler;
  if (command.bytes > parameters_.front.inline_bytes) arrival += stack.list;
  drive_.Submit(arrival, tag, command);
}

// Sends writes that wait in a lane as one request, if they are adjacent and within the stack's
// limit.
void Simulation::Release(Running* running, std::uint32_t lane, Time now) {
  Held& held = running->held[lane];
  held.busy = !held.waiting.empty();
  if (!held.busy) return;
  const std::uint32_t first = held.waiting.front();
  held.waiting.pop_front();
  Slot& leader = slots_[first];
  const Bytes own = leader.command.bytes;
  Command request = leader.command;
  Slot* last = &leader;
  while (!held.waiting.empty()) {
    Slot& next = slots_[held.waiting.front()];
    if (next.command.zone != request.zone ||
        next.command.offset != request.offset + request.bytes ||
        request.bytes + next.command.bytes > running->client.job().stack.merge) {
      break;
    }
    request.bytes += next.command.bytes;
    last->next = held.waiting.front();
    last = &next;
    held.waiting.pop_front();
  }
  running->client.LaneOf(leader.number).queued -= request.bytes;
  leader.command = request;
  Dispatch(first, request.bytes == own ? now : now + running->client.job().stack.merged);
  leader.command.bytes = own;
}

void Simulation::Completed(std::uint32_t tag, Time now) {
  Slot& slot = slots_[tag];
  Running& running = clients_[slot.client];
  if (!running.held.empty() && slot.command.operation == Operation::kWrite) {
    Release(&running, slot.number % static_cast<std::uint32_t>(running.held.size()), now);
    std::uint32_t follower = slot.next;
    const Completion result = drive_.completion(tag);
    Record(tag, now, result);
    while (follower != kNoTag) {
      const std::uint32_t next = slots_[follower].next;
      Record(follower, now, {.status = result.status});
      follower = next;
    }
    return;
  }
  Record(tag, now, drive_.completion(tag));
}

void Simulation::Record(std::uint32_t tag, Time now, const Completion& result) {
  Slot& slot = slots_[tag];
  Running& running = clients_[slot.client];
  ++commands_;
  if (result.status == Status::kOk) {
    opens_ += result.opened || slot.command.operation == Operation::kOpen ? 1 : 0;
    resets_ += slot.command.operation == Operation::kReset ? 1 : 0;
    finishes_ += slot.command.operation == Operation::kFinish ? 1 : 0;
  }
  if (now >= job_.warmup && now <= running.client.job().end) {
    running.statistics.Record(slot.command, result.status, result.opened, now - slot.begin, now);
  }
  Continue(tag, now);
}

// The slot is free for its client's next command.
void Simulation::Continue(std::uint32_t tag, Time now) {
  Slot& slot = slots_[tag];
  Running& running = clients_[slot.client];
  const ClientJob& client = running.client.job();
  Time at = now + parameters_.host.gap + parameters_.host.gap_per_kib * slot.command.bytes / 1024;
  slot.begin = at;
  bool waits = false;
  if (client.rate) {
    slot.begin = running.client.Due(running.due++);
    waits = slot.begin > at;
    at = std::max(at, slot.begin);
  }
  if (client.stack.cpu > 0) {
    waits = true;
    at = std::max(at, running.thread);
    running.thread = at + client.stack.cpu;
    if (!client.rate) slot.begin = at;
  }
  if (waits) {
    events_.Add(at, EventKind::kTimer, 0, tag);
  } else {
    Issue(tag, at);
  }
}

Json Simulation::Report(Time end) const {
  Json report = {{"job", job_.name}, {"model", parameters_.name}, {"virtual_ns", end}};
  const Time counted = std::min(end, job_.duration);
  report["counted_ns"] = counted > job_.warmup ? counted - job_.warmup : 0;
  report["commands"] = commands_;
  report["events"] = events_.taken();
  report["clients"] = Json::array();
  for (const Running& running : clients_) {
    const ClientJob& client = running.client.job();
    const Time from = std::max(job_.warmup, client.start);
    const Time to = running.ran_out ? running.statistics.last() : client.end;
    report["clients"].push_back(
        {{"name", client.name},
         {"commands", running.statistics.Report(to > from ? to - from : 0)}});
  }
  if (drive_.zones() != nullptr) report["zones"] = ZonesJson();
  report["media"] = MediaJson();
  if (!job_.zone_report || drive_.zones() == nullptr) return report;
  report["zone_list"] = Json::array();
  constexpr std::array kNames = {"empty", "implicitly_opened", "explicitly_opened", "closed",
                                 "full"};
  for (std::uint32_t i = 0; i < drive_.zones()->count(); ++i) {
    const Zone& zone = drive_.zones()->at(i);
    report["zone_list"].push_back({{"zone", i},
                                   {"state", kNames.at(static_cast<std::size_t>(zone.state))},
                                   {"written", zone.written},
                                   {"resets", zone.resets},
                                   {"erases", zone.erases}});
  }
  return report;
}

Json Simulation::ZonesJson() const {
  std::array<std::uint32_t, 5> states{};
  for (std::uint32_t i = 0; i < drive_.zones()->count(); ++i) {
    ++states.at(static_cast<std::size_t>(drive_.zones()->at(i).state));
  }
  return {{"empty", states[0]},
          {"implicitly_opened", states[1]},
          {"explicitly_opened", states[2]},
          {"closed", states[3]},
          {"full", states[4]},
          {"opens", opens_},
          {"resets", resets_},
          {"finishes", finishes_}};
}

Json Simulation::MediaJson() const {
  const Media& media = drive_.media();
  Json json = {{"host_bytes", media.host},
               {"programmed_bytes", media.programmed},
               {"pad_bytes", media.pad},
               {"collected_bytes", media.moved},
               {"erases", media.erases}};
  std::uint64_t blocks = 0;
  std::uint64_t sum = 0;
  std::uint32_t least = ~std::uint32_t{0};
  std::uint32_t most = 0;
  const auto add = [&](std::uint32_t erases) {
    ++blocks;
    sum += erases;
    least = std::min(least, erases);
    most = std::max(most, erases);
  };
  if (const Zones* zones = drive_.zones(); zones != nullptr) {
    for (std::uint32_t i = 0; i < zones->count(); ++i) add(zones->at(i).erases);
  }
  if (const Ftl* ftl = drive_.ftl(); ftl != nullptr) {
    for (std::uint32_t i = 0; i < ftl->superblocks(); ++i) add(ftl->erases(i));
  }
  json["erases_per_block"] = {{"min", least},
                              {"mean", static_cast<double>(sum) / static_cast<double>(blocks)},
                              {"max", most}};
  json["write_amplification"] =
      media.host == 0 ? Json(nullptr)
                      : Json(static_cast<double>(media.host + media.pad + media.moved) /
                             static_cast<double>(media.host));
  return json;
}

}  // namespace zonemodel
