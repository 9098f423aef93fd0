#include "zoneblk/disk.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <string>
#include <utility>

namespace zoneblk {
namespace {

using zonemodel::Operation;
using zonemodel::Status;
using zonemodel::ZoneState;

constexpr unsigned kSectorShift = 9;
constexpr std::uint32_t kManaged = ~std::uint32_t{0};  // a finish or reset is under way

// Returns the error that the kernel's block layer uses for a status.
int ErrorOf(Status status) {
  if (status == Status::kOk) return 0;
  if (status == Status::kTooManyActive) return EOVERFLOW;
  return status == Status::kTooManyOpen ? ETOOMANYREFS : EIO;
}

__u8 ConditionOf(ZoneState state) {
  switch (state) {
    case ZoneState::kEmpty:
      return BLK_ZONE_COND_EMPTY;
    case ZoneState::kImplicit:
      return BLK_ZONE_COND_IMP_OPEN;
    case ZoneState::kExplicit:
      return BLK_ZONE_COND_EXP_OPEN;
    case ZoneState::kClosed:
      return BLK_ZONE_COND_CLOSED;
    case ZoneState::kFull:
      return BLK_ZONE_COND_FULL;
  }
  return BLK_ZONE_COND_OFFLINE;
}

// A reset of all zones needs a tag for each zone.
const zonemodel::Parameters& Checked(const zonemodel::Parameters& parameters, bool zoned,
                                     std::uint32_t depth) {
  constexpr Bytes kMostZone = Bytes{1} << 40;
  if (!zoned) return parameters;
  const zonemodel::ZoneParameters& zones = *parameters.zones;
  if (!std::has_single_bit(zones.size) || zones.size > kMostZone) {
    throw zonemodel::BadInput("zones.size is no power of two below 1 TiB",
                              "the kernel needs one: --set zones.size=8MiB");
  }
  if (zones.count > zonemodel::kMostTags - depth) {
    throw zonemodel::BadInput(
        "zones.count is too large",
        "at most " + std::to_string(zonemodel::kMostTags - depth) + " zones at this depth");
  }
  return parameters;
}

}  // namespace

Disk::Disk(const zonemodel::Parameters& parameters, bool zoned, std::uint32_t depth,
           std::uint64_t seed)
    : parameters_(Checked(parameters, zoned, depth)),
      zoned_(zoned),
      depth_(depth),
      drive_(parameters, seed, &events_),
      under_way_(depth),
      resets_all_(zoned ? parameters.zones->count : 0),
      users_(resets_all_.size()) {
  // An unwritten drive erases nothing until it is full, so the first run on it would be faster. Two
  // rounds also use the over-provisioned space.
  if (!zoned_) drive_.PrepareConventional(/*random=*/false, /*times=*/2, nullptr);
}

Bytes Disk::size() const {
  return zoned_ ? parameters_.zones->count * parameters_.zones->size : parameters_.ftl->capacity;
}

Bytes Disk::capacity() const {
  return zoned_ ? parameters_.zones->count * parameters_.zones->capacity : size();
}

bool Disk::Supports(Op op) const {
  switch (op) {
    case Op::kRead:
    case Op::kWrite:
    case Op::kFlush:
      return true;
    case Op::kDiscard:
      return !zoned_;
    default:
      return zoned_;
  }
}

Move Disk::Submit(Time now, std::uint32_t tag, const Request& request) {
  Run(now);
  under_way_[tag] = {.request = request, .arrival = now, .parts = 1};
  ++running_;
  if (!Claim(request)) {
    under_way_[tag].refused = true;
    Send(now, tag, Operation::kReport, 0, 0);
    return {};
  }
  switch (request.op) {
    case Op::kRead:
      return Read(now, tag, request);
    case Op::kWrite:
    case Op::kAppend:
      return Write(now, tag, request);
    case Op::kDiscard:
      Send(now, tag, Operation::kTrim, request.offset, request.bytes);
      if (Outside(request)) return {};
      return {.way = Move::Way::kDiscard, .offset = request.offset, .bytes = request.bytes};
    case Op::kFlush:
      Send(now, tag, Operation::kFlush, 0, 0);
      return {};
    case Op::kReport:
      Send(now, tag, Operation::kReport, 0, 0);
      return {};
    case Op::kOpen:
      Send(now, tag, Operation::kOpen, request.offset, 0);
      return {};
    case Op::kClose:
      Send(now, tag, Operation::kClose, request.offset, 0);
      return {};
    case Op::kFinish:
      Send(now, tag, Operation::kFinish, request.offset, 0);
      return {};
    case Op::kReset:
      Send(now, tag, Operation::kReset, request.offset, 0);
      return {};
    case Op::kResetAll:
      ResetAll(now, tag);
      return {};
  }
  return {};
}

void Disk::Send(Time now, std::uint32_t tag, Operation operation, Bytes offset, Bytes bytes) {
  const Bytes size = zoned_ ? parameters_.zones->size : 0;
  drive_.Submit(now, tag,
                {.operation = operation,
                 .conventional = !zoned_,
                 .zone = zoned_ ? static_cast<std::uint32_t>(offset / size) : 0,
                 .offset = zoned_ ? offset % size : offset,
                 .bytes = bytes});
}

// Returns the number of writes under way in the zone of a request, or null.
std::uint32_t* Disk::UsersOf(const Request& request) {
  if (!zoned_) return nullptr;
  const Bytes zone = request.offset / parameters_.zones->size;
  return zone < users_.size() ? &users_[zone] : nullptr;
}

// The model does not allow a finish or reset while a write, finish or reset of the same zone is
// under way. Programs usually wait for their writes before they send one.
bool Disk::Claim(const Request& request) {
  std::uint32_t* const users = UsersOf(request);
  if (users == nullptr) return true;
  switch (request.op) {
    case Op::kWrite:
    case Op::kAppend:
      if (*users == kManaged) return false;
      ++*users;
      return true;
    case Op::kFinish:
    case Op::kReset:
      return std::exchange(*users, *users == 0 ? kManaged : *users) == 0;
    case Op::kResetAll:
      if (std::ranges::any_of(users_, [](std::uint32_t zone) { return zone != 0; })) return false;
      std::ranges::fill(users_, kManaged);
      return true;
    default:
      return true;
  }
}

void Disk::Release(const Request& request) {
  std::uint32_t* const users = UsersOf(request);
  if (users == nullptr) return;
  if (request.op == Op::kWrite || request.op == Op::kAppend) --*users;
  if (request.op == Op::kFinish || request.op == Op::kReset) *users = 0;
  if (request.op == Op::kResetAll) std::ranges::fill(users_, 0);
}

bool Disk::Outside(const Request& request) const {
  return request.offset > size() || request.bytes > size() - request.offset;
}

// Bytes that were never written are zero. So are bytes between a zone's capacity and its size,
// because programs that look for labels read the last block of a device.
Move Disk::Read(Time now, std::uint32_t tag, const Request& request) {
  Move move{.way = Move::Way::kFromContents, .offset = request.offset, .bytes = request.bytes};
  if (!zoned_ || Outside(request)) {
    Send(now, tag, Operation::kRead, request.offset, request.bytes);
    return Outside(request) ? Move{} : move;
  }
  const Bytes start = request.offset % parameters_.zones->size;
  const auto until = [&](Bytes end) {
    return end > start ? std::min(request.bytes, end - start) : 0;
  };
  const Bytes exists = until(parameters_.zones->capacity);
  if (exists == 0) {
    Send(now, tag, Operation::kReport, 0, 0);
  } else {
    Send(now, tag, Operation::kRead, request.offset, exists);
  }
  const auto number = static_cast<std::uint32_t>(request.offset / parameters_.zones->size);
  move.bytes = until(drive_.zones()->at(number).written);
  move.zeros = request.bytes - move.bytes;
  return move;
}

Move Disk::Write(Time now, std::uint32_t tag, const Request& request) {
  const bool append = request.op == Op::kAppend;
  Send(now, tag, append ? Operation::kAppend : Operation::kWrite, request.offset, request.bytes);
  const zonemodel::Completion& result = drive_.completion(tag);
  if (result.status != Status::kOk) return {};
  Bytes offset = request.offset;
  if (append) offset += result.offset - offset % parameters_.zones->size;
  under_way_[tag].request.offset = offset;
  return {.way = Move::Way::kToContents, .offset = offset, .bytes = request.bytes};
}

// Sends a reset for each zone that is not empty, with the tag depth + zone.
void Disk::ResetAll(Time now, std::uint32_t tag) {
  under_way_[tag].parts = 0;
  for (std::uint32_t zone = 0; zone < parameters_.zones->count; ++zone) {
    if (drive_.zones()->at(zone).state == ZoneState::kEmpty) continue;
    ++under_way_[tag].parts;
    resets_all_[zone] = tag;
    Send(now, depth_ + zone, Operation::kReset, zone * parameters_.zones->size, 0);
  }
  if (under_way_[tag].parts > 0) return;
  under_way_[tag].parts = 1;
  Send(now, tag, Operation::kReport, 0, 0);
}

void Disk::Run(Time now) {
  while (!events_.empty() && events_.first().time <= now) {
    const zonemodel::Event event = events_.Take();
    if (event.kind() != zonemodel::EventKind::kDone) {
      drive_.Handle(event);
    } else if (event.tag() < depth_) {
      Finished(event.time, event.tag());
    } else {
      const std::uint32_t tag = resets_all_[event.tag() - depth_];
      if (--under_way_[tag].parts == 0) Finished(event.time, tag);
    }
  }
}

void Disk::Finished(Time due, std::uint32_t tag) {
  const UnderWay& way = under_way_[tag];
  const Request& request = way.request;
  int error = EIO;
  if (!way.refused) {
    const bool parts = request.op == Op::kResetAll;  // none of them can fail
    error = parts ? 0 : ErrorOf(drive_.completion(tag).status);
    Release(request);
  }
  Count& count = counts_.at(static_cast<std::size_t>(request.op));
  if (error != 0) {
    ++count.errors;
  } else {
    ++count.commands;
    count.bytes += request.bytes;
  }
  done_.push_back({.tag = tag,
                   .op = request.op,
                   .error = error,
                   .bytes = request.bytes,
                   .offset = request.offset,
                   .arrival = way.arrival,
                   .due = due});
  --running_;
}

void Disk::Advance(Time now, std::vector<Done>* done) {
  Run(now);
  done->insert(done->end(), done_.begin(), done_.end());
  done_.clear();
}

Time Disk::Next() const {
  if (!done_.empty()) return 0;
  return running_ == 0 ? zonemodel::kNever : drive_.EarliestDone();
}

std::vector<blk_zone> Disk::Report(Bytes offset, std::size_t count) const {
  std::vector<blk_zone> report;
  const zonemodel::ZoneParameters& zones = *parameters_.zones;
  const __u64 length = zones.size >> kSectorShift;
  for (auto i = static_cast<std::uint32_t>(offset / zones.size);
       i < zones.count && report.size() < count; ++i) {
    const zonemodel::Zone& zone = drive_.zones()->at(i);
    blk_zone entry{};
    entry.start = i * length;
    entry.len = length;
    entry.wp =
        entry.start + (zone.state == ZoneState::kFull ? length : zone.written >> kSectorShift);
    entry.type = BLK_ZONE_TYPE_SEQWRITE_REQ;
    entry.cond = ConditionOf(zone.state);
    entry.capacity = zones.capacity >> kSectorShift;
    report.push_back(entry);
  }
  return report;
}

}  // namespace zoneblk
