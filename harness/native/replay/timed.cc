#include "replay/timed.h"

#include <algorithm>
#include <string>
#include <utility>

namespace zlfs::replay {
namespace {

using zonemodel::Operation;
using zonemodel::Status;
using zonemodel::Time;
using Kind = DeviceRequest::Kind;

// The largest command of the device: the kernel splits larger requests.
constexpr std::uint64_t kMostBytes = 128 << 10;
constexpr std::uint32_t kMostParts = 16;  // of a read, under way at once
constexpr const char* kStack = "io_uring-mq-deadline";

zonemodel::Parameters WithZones(zonemodel::Parameters parameters, const Setting& setting) {
  zonemodel::ZoneParameters& zones = *parameters.zones;
  zones.count = setting.zones;
  zones.size = zones.capacity = setting.zone_capacity;
  zones.max_open = zones.max_active = 0;
  return parameters;
}

zonemodel::StackParameters StackOf(const zonemodel::Parameters& parameters) {
  const auto& stacks = parameters.host.stacks;
  const auto found = stacks.find(kStack);
  return found == stacks.end() ? stacks.at("passthrough") : found->second;
}

Operation OperationOf(Kind kind) {
  switch (kind) {
    case Kind::kRead:
      return Operation::kRead;
    case Kind::kFinish:
      return Operation::kFinish;
    case Kind::kReset:
      return Operation::kReset;
    case Kind::kFlush:
      return Operation::kFlush;
    default:
      return Operation::kWrite;
  }
}

bool IsOrdered(Kind kind) {
  return kind == Kind::kWrite || kind == Kind::kFinish || kind == Kind::kReset;
}

nlohmann::json CommandJson(const Times::Command& command) {
  const zonemodel::Histogram& latencies = command.latencies;
  const auto quantile = [&latencies](std::uint64_t below) {
    const auto value = latencies.Quantile(below, 10'000);
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  const auto sum = static_cast<std::uint64_t>(latencies.sum());
  return {{"count", latencies.count()}, {"bytes", command.bytes},    {"total_ns", sum},
          {"max_ns", latencies.max()},  {"p50_ns", quantile(5000)},  {"p95_ns", quantile(9500)},
          {"p99_ns", quantile(9900)},   {"p99_9_ns", quantile(9990)}};
}

template <typename Names, typename Commands>
nlohmann::json CommandsJson(const Names& names, const Commands& commands) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (commands[i].latencies.count() > 0) {
      json[std::string(names[i])] = CommandJson(commands[i]);
    }
  }
  return json;
}

}  // namespace

nlohmann::json Times::Json() const {
  return {{"appends", CommandsJson(kCauseNames, appends)},
          {"syncs", CommandsJson(kCauseNames, syncs)},
          {"commands", CommandsJson(zonemodel::kOperationNames, commands)},
          {"recorded_ns", recorded},
          {"modelled_ns", modelled},
          {"turns_ns", turns}};
}

TimedPlayer::TimedPlayer(zonemodel::Parameters parameters, const Setting& setting,
                         const Requests& requests, Times* times)
    : parameters_(WithZones(std::move(parameters), setting)),
      stack_(StackOf(parameters_)),
      metadata_zones_(setting.metadata_zones),
      times_(times),
      drive_(parameters_, 1, &events_),
      zones_(setting.zones) {
  for (const std::vector<DeviceRequest>& one : requests.threads()) {
    if (!one.empty()) threads_.push_back({.requests = &one});
  }
  begun_.resize(threads_.size() * kMostParts, zonemodel::kNever);
  Prepare(requests);
  times_->recorded += requests.recorded();
}

void TimedPlayer::Prepare(const Requests& requests) {
  using zonemodel::ZoneState;
  for (std::uint32_t i = metadata_zones_; i < requests.zones().size(); ++i) {
    const ZoneSpace& zone = requests.zones()[i];
    const bool whole = zone.written == zone.capacity;
    const bool full = zone.use == ZoneUse::kFull || whole;
    if (zone.use == ZoneUse::kUnusable || (zone.written == 0 && !full)) continue;
    drive_.Prepare(i, full ? ZoneState::kFull : ZoneState::kClosed, zone.written, full && !whole,
                   false);
  }
}

IOStatus TimedPlayer::Play() {
  if (begun_.size() > zonemodel::kMostTags) {
    return IOStatus::NotSupported("model", std::to_string(threads_.size()) + " threads");
  }
  left_ = static_cast<std::uint32_t>(threads_.size());
  for (std::uint32_t thread = 0; thread < threads_.size(); ++thread) Next(thread, 0);
  Time now = 0;
  while (left_ > 0 && !refusal_ && !events_.empty()) {
    const zonemodel::Event event = events_.Take();
    now = event.time;
    if (event.kind() == zonemodel::EventKind::kTimer) {
      Arrive(event.tag() / kMostParts, now);
    } else if (event.kind() == zonemodel::EventKind::kDone) {
      PartDone(event.tag(), now);
    } else {
      drive_.Handle(event);
    }
  }
  times_->modelled += now;
  if (refusal_) {
    return IOStatus::IOError("model", "the modelled drive refuses a command with status " +
                                          std::to_string(static_cast<int>(*refusal_)));
  }
  if (left_ > 0) return IOStatus::IOError("model", "the modelled drive stands still");
  return IOStatus::OK();
}

// Schedules the thread's next request after its thinking time.
void TimedPlayer::Next(std::uint32_t number, Time now) {
  Thread& thread = threads_[number];
  if (thread.next == thread.requests->size()) {
    --left_;
    return;
  }
  const Time at = now + thread.request().thinks;
  events_.Add(at, zonemodel::EventKind::kTimer, 0, number * kMostParts);
}

void TimedPlayer::Arrive(std::uint32_t number, Time now) {
  Thread& thread = threads_[number];
  const DeviceRequest& request = thread.request();
  thread.arrived = now;
  if (request.begins_sync) thread.sync_begin = now;
  if (request.kind == Kind::kSynced) {
    times_->syncs[request.cause].latencies.Record(now - thread.sync_begin);
    ++thread.next;
    return Next(number, now);
  }
  Begin(number, now);
}

bool TimedPlayer::MustWait(const DeviceRequest& request) const {
  const Zone& zone = zones_[request.zone];
  if (request.kind == Kind::kRead) return zone.done < request.before;
  if (!IsOrdered(request.kind)) return request.kind == Kind::kCommit && committing_;
  return zone.done != request.before ||
         (request.kind == Kind::kReset && zone.reads_done != request.reads_before);
}

// Sends the request, or waits. A wait for commands that are under way is time of the device and
// counts. A wait for requests that another thread has not sent yet does not count.
void TimedPlayer::Begin(std::uint32_t number, Time now) {
  Thread& thread = threads_[number];
  const DeviceRequest& request = thread.request();
  Zone& zone = zones_[request.zone];
  if (MustWait(request)) {
    (request.kind == Kind::kCommit ? commits_ : zone.waiting).push_back(number);
    return;
  }
  thread.begin = thread.arrived;
  if (IsOrdered(request.kind)) {
    thread.begin = std::max(thread.arrived, zone.sent);
    if (request.kind == Kind::kReset) thread.begin = std::max(thread.begin, zone.read_sent);
    zone.sent = now;
    times_->turns += thread.begin - thread.arrived;
    thread.sync_begin += thread.begin - thread.arrived;
  }
  if (request.kind == Kind::kRead) zone.read_sent = now;
  thread.sent = 0;
  if (request.kind == Kind::kCommit) {
    committing_ = true;
    MakeLogRoom(request.bytes);
  }
  Send(number, now);
}

// Sends as many parts as may be under way at once: the parts of one recorded read, or one part of
// another request.
void TimedPlayer::Send(std::uint32_t number, Time now) {
  const DeviceRequest& request = threads_[number].request();
  std::uint64_t most = 1;
  if (request.kind == Kind::kRead) {
    most = std::clamp<std::uint64_t>(request.each / kMostBytes, 1, kMostParts);
  }
  while (threads_[number].under_way < most && SendPart(number, now)) {
  }
}

bool TimedPlayer::SendPart(std::uint32_t number, Time now) {
  Thread& thread = threads_[number];
  const DeviceRequest& request = thread.request();
  if (thread.sent > 0 && thread.sent >= request.bytes) return false;
  zonemodel::Command command{.operation = OperationOf(request.kind),
                             .conventional = false,
                             .zone = request.zone,
                             .offset = request.offset + thread.sent,
                             .bytes = std::min(request.bytes - thread.sent, kMostBytes)};
  if (request.kind == Kind::kRead) command.bytes = std::min(command.bytes, request.each);
  if (request.kind == Kind::kCommit) {
    command.zone = log_zone_;
    command.offset = drive_.zones()->at(log_zone_).written;
  }
  std::uint32_t tag = number * kMostParts;  // parts of a read end in any order
  while (begun_[tag] != zonemodel::kNever) ++tag;
  begun_[tag] = now;
  thread.sent += std::max<std::uint64_t>(1, command.bytes);
  ++thread.under_way;
  times_->commands[static_cast<std::size_t>(command.operation)].bytes += command.bytes;
  Time arrival = now + stack_.submit + stack_.scheduler;
  if (command.bytes > parameters_.front.inline_bytes) arrival += stack_.list;
  drive_.Submit(arrival, tag, command);
  return true;
}

void TimedPlayer::PartDone(std::uint32_t tag, Time now) {
  const std::uint32_t number = tag / kMostParts;
  const Status status = drive_.completion(tag).status;
  if (status != Status::kOk) refusal_ = status;
  const auto operation = static_cast<std::size_t>(OperationOf(threads_[number].request().kind));
  times_->commands[operation].latencies.Record(now - begun_[tag]);
  begun_[tag] = zonemodel::kNever;
  --threads_[number].under_way;
  Send(number, now);
  if (threads_[number].under_way == 0) Done(number, now);
}

void TimedPlayer::Done(std::uint32_t number, Time now) {
  Thread& thread = threads_[number];
  const DeviceRequest& request = thread.request();
  ++thread.next;
  if (request.kind == Kind::kWrite) {
    Times::Command& append = times_->appends[request.cause];
    append.latencies.Record(now - thread.begin);
    append.bytes += request.bytes;
  }
  if (request.kind == Kind::kCommit) {
    committing_ = false;
    Wake(&commits_, now);
  } else if (request.kind != Kind::kFlush) {
    Zone& zone = zones_[request.zone];
    ++(request.kind == Kind::kRead ? zone.reads_done : zone.done);
    Wake(&zone.waiting, now);
  }
  Next(number, now);
}

// A roll-over of the metadata log takes no time.
void TimedPlayer::MakeLogRoom(std::uint64_t bytes) {
  if (drive_.zones()->at(log_zone_).written + bytes <= parameters_.zones->capacity) return;
  drive_.Prepare(log_zone_, zonemodel::ZoneState::kFull, parameters_.zones->capacity, false, false);
  log_zone_ = (log_zone_ + 1) % metadata_zones_;
  drive_.Prepare(log_zone_, zonemodel::ZoneState::kEmpty, 0, false, false);
}

void TimedPlayer::Wake(std::vector<std::uint32_t>* waiting, Time now) {
  for (const std::uint32_t thread : std::exchange(*waiting, {})) Begin(thread, now);
}

}  // namespace zlfs::replay
