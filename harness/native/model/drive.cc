#include "model/drive.h"

#include <algorithm>

namespace zonemodel {
namespace {

constexpr std::uint64_t kStream = 2;  // of random numbers; the dies use another one

}  // namespace

Drive::Drive(const Parameters& parameters, std::uint64_t seed, EventQueue* events)
    : parameters_(parameters),
      events_(events),
      random_(seed, kStream),
      front_(parameters.front),
      buffer_(parameters.buffer),
      dies_(parameters.flash, seed, events),
      under_way_(kMostTags) {
  if (parameters.zones) zones_.emplace(*parameters.zones, parameters.flash);
  if (!parameters.ftl) return;
  ftl_.emplace(*parameters.ftl, parameters.flash);
  in_program_.resize(ftl_->units());
}

Status Drive::Prepare(std::uint32_t number, ZoneState state, Bytes written, bool finished,
                      bool stale) {
  if (number >= zones_->count()) return Status::kOutOfRange;
  Zone& zone = zones_->at(number);
  const Bytes waiting = zone.part();
  const Status status = zones_->Prepare(number, state, written, finished, stale);
  if (status != Status::kOk) return status;
  buffer_.Release(waiting);
  const Bytes whole = finished ? written : written - written % parameters_.flash.program_unit;
  zone.sent = zone.programmed = whole;
  buffer_.Force(zone.part());
  return status;
}

void Drive::PrepareConventional(bool random, std::uint32_t times, kvmix::Random* draw) {
  Ftl::Work work;
  const std::uint32_t pages = ftl_->pages();
  // When a unit becomes whole, its program releases all its bytes from the buffer. So the buffer
  // must hold the bytes of the units that are not whole after the preparation.
  buffer_.Release(ftl_->PartialBytes());
  for (std::uint32_t round = 0; round < times; ++round) {
    for (std::uint32_t i = 0; i < pages; ++i) {
      ftl_->Write(random ? static_cast<std::uint32_t>(draw->Below(pages)) : i, &work);
      work.units.clear();
      work.erased.clear();
    }
  }
  buffer_.Force(ftl_->PartialBytes());
  ftl_->ForgetErases();
}

void Drive::Submit(Time arrival, std::uint32_t tag, const Command& command) {
  UnderWay& way = under_way_[tag];
  way.command = command;
  way.result = {};
  way.parts = 0;
  way.done = 0;
  way.last_page = 0;
  switch (command.operation) {
    case Operation::kRead:
      return Read(arrival, tag);
    case Operation::kWrite:
    case Operation::kAppend:
      return Write(arrival, tag);
    case Operation::kFlush:  // the buffer survives a loss of power, so nothing is written
      return Done(arrival + front_.parameters().flush + front_.format(), tag);
    case Operation::kReport:
      return Done(arrival + front_.parameters().report + front_.format(), tag);
    case Operation::kOpen:
      return Open(arrival, tag);
    case Operation::kClose:
      return Close(arrival, tag);
    case Operation::kFinish:
      return Finish(arrival, tag);
    case Operation::kReset:
      return Reset(arrival, tag);
    case Operation::kTrim: {
      const Bytes page = ftl_->page_bytes();
      if (command.offset + command.bytes > ftl_->pages() * page) {
        return Fail(arrival, tag, Status::kOutOfRange);
      }
      const Bytes end = (command.offset + command.bytes) / page;
      for (Bytes at = (command.offset + page - 1) / page; at < end; ++at) {
        ftl_->Trim(static_cast<std::uint32_t>(at));
      }
      return Done(arrival + front_.parameters().trim + front_.format(), tag);
    }
  }
}

// A refused command takes its own fixed latency and nothing else. Commands of zones take a write's.
void Drive::Fail(Time arrival, std::uint32_t tag, Status status) {
  UnderWay& way = under_way_[tag];
  way.result.status = status;
  const FrontParameters& front = front_.parameters();
  Time latency = front.write;
  if (way.command.operation == Operation::kRead) latency = front.read;
  if (way.command.operation == Operation::kAppend) latency = front.append;
  if (way.command.operation == Operation::kTrim) latency = front.trim;
  Done(arrival + latency + front_.format(), tag);
}

// One of the command's parts is done.
void Drive::Part(Time time, std::uint32_t tag) {
  UnderWay& way = under_way_[tag];
  way.done = std::max(way.done, time);
  if (--way.parts == 0) Done(way.done, tag);
}

// A command delays the reset that the core runs, unless this reset is exclusive.
void Drive::Interrupt(Time cost) {
  if (!core_queue_.empty() && !core_queue_.front().exclusive) core_end_ += cost;
}

void Drive::Read(Time arrival, std::uint32_t tag) {
  UnderWay& way = under_way_[tag];
  const Command& command = way.command;
  const Bytes end = command.offset + command.bytes;
  if (command.conventional) {
    if (end > ftl_->pages() * ftl_->page_bytes()) return Fail(arrival, tag, Status::kOutOfRange);
  } else {
    const Status status = zones_->Read(command.zone, command.offset, command.bytes);
    if (status != Status::kOk) return Fail(arrival, tag, status);
    Interrupt(parameters_.zones->manage_read);
  }
  const Time entered = front_.EnterRead(arrival);
  if (command.conventional) {
    ReadConventional(entered, tag);
  } else {
    ReadZone(entered, tag);
  }
  if (way.parts == 0) {
    const Time ready = entered + front_.parameters().read + front_.format();
    return Done(front_.Leave(arrival, ready, command.bytes), tag);
  }
  way.part = (command.bytes + way.parts - 1) / way.parts;
}

void Drive::ReadPage(std::uint32_t die, Time entered, Bytes bytes, std::uint32_t tag) {
  UnderWay& way = under_way_[tag];
  ++way.parts;
  way.last_page = std::max(way.last_page, dies_.Read(die, entered, bytes, tag));
}

// Reads one flash page at a time. Data that is in the buffer or was never written needs no read.
void Drive::ReadZone(Time entered, std::uint32_t tag) {
  const Command& command = under_way_[tag].command;
  const Bytes page = parameters_.flash.page;
  const Bytes end = std::min(command.offset + command.bytes, zones_->at(command.zone).programmed);
  for (Bytes at = command.offset; at < end;) {
    const Bytes next = std::min(end, (at / page + 1) * page);
    ReadPage(zones_->DieOf(command.zone, at / parameters_.flash.program_unit), entered, next - at,
             tag);
    at = next;
  }
}

void Drive::ReadConventional(Time entered, std::uint32_t tag) {
  const Command& command = under_way_[tag].command;
  const Bytes page = ftl_->page_bytes();
  Ftl::Place last{};
  Bytes bytes = 0;  // to read from the flash page `last`
  const auto read = [&] {
    if (bytes == 0) return;
    ReadPage(last.die, entered, bytes, tag);
    bytes = 0;
  };
  for (Bytes at = command.offset / page; at * page < command.offset + command.bytes; ++at) {
    Ftl::Place place{};
    if (!ftl_->Find(static_cast<std::uint32_t>(at), &place)) continue;
    if (in_program_[place.unit] > 0) continue;  // its data is still in the buffer
    if (place.flash_page != last.flash_page) read();
    last = place;
    bytes += page;
  }
  read();
}

void Drive::Write(Time arrival, std::uint32_t tag) {
  UnderWay& way = under_way_[tag];
  Command& command = way.command;
  const bool append = command.operation == Operation::kAppend;
  Time more = 0;
  if (command.conventional) {
    if (command.offset + command.bytes > ftl_->pages() * ftl_->page_bytes()) {
      return Fail(arrival, tag, Status::kOutOfRange);
    }
  } else {
    const ZoneParameters& zones = *parameters_.zones;
    if (append && command.zone < zones_->count()) {
      command.offset = zones_->at(command.zone).written;
      way.result.offset = command.offset;
    }
    const Status status =
        zones_->Write(command.zone, command.offset, command.bytes, append, &way.result.opened);
    if (status != Status::kOk) return Fail(arrival, tag, status);
    way.life = zones_->at(command.zone).life;
    if (way.result.opened) more = append ? zones.implicit_open_append : zones.implicit_open;
    Interrupt(append ? zones.manage_append : zones.manage_write);
  }
  const Time entered = front_.EnterWrite(arrival, command.bytes, append);
  const Time ready = entered + front_.WriteLatency(command.bytes, append) + more;
  way.parts = 1;
  // A command may have opened the zone before.
  if (!command.conventional && command.offset == 0 && zones_->at(command.zone).stale) {
    ++way.parts;
    EraseZone(arrival, command.zone, tag);
  }
  if (!buffer_.Enter({.tag = tag, .ready = ready, .bytes = command.bytes})) return Admit(arrival);
  Accept(arrival, way);
  Part(ready, tag);
}

// The data of a write is now in the write buffer. Sends whole units to the dies.
void Drive::Accept(Time now, const UnderWay& way) {
  const Command& command = way.command;
  media_.host += command.bytes;
  if (command.conventional) return AcceptConventional(now, command.offset, command.bytes);
  Zone& zone = zones_->at(command.zone);
  if (zone.life == way.life && !zone.finished) {
    return AcceptZone(now, command.zone, command.bytes);
  }
  // Its zone was reset or finished while the write waited. A finish programs its data.
  buffer_.Release(command.bytes);
  if (zone.life == way.life) zone.programmed += command.bytes;
}

void Drive::AcceptZone(Time now, std::uint32_t number, Bytes bytes) {
  Zone& zone = zones_->at(number);
  const Bytes unit = parameters_.flash.program_unit;
  zone.buffered += bytes;
  while (zone.part() >= unit) ProgramUnit(now, number, unit);
  // A zone ends with a shorter unit after a padded unit, and if its capacity is not a multiple of
  // the unit.
  if (zone.part() > 0 && zone.buffered == parameters_.zones->capacity) {
    ProgramUnit(now, number, zone.part());
  }
}

// Programs the zone's next bytes. Padding fills the rest of the unit.
void Drive::ProgramUnit(Time now, std::uint32_t number, Bytes bytes) {
  Zone& zone = zones_->at(number);
  const Bytes unit = parameters_.flash.program_unit;
  media_.pad += unit - bytes;
  AddTask(zones_->DieOf(number, zone.sent / unit), now,
          {.kind = Task::Kind::kProgram,
           .count = 1,
           .owner = number,
           .buffered = bytes,
           .reads = 0,
           .life = zone.life});
  zone.sent += bytes;
}

void Drive::AcceptConventional(Time now, Bytes offset, Bytes bytes) {
  const Bytes page = ftl_->page_bytes();
  Ftl::Work work;
  const Bytes first = offset / page;
  const Bytes end = (offset + bytes + page - 1) / page;
  for (Bytes at = first; at < end; ++at) ftl_->Write(static_cast<std::uint32_t>(at), &work);
  // A partly written page takes a whole page of the buffer, and of a program.
  const Bytes pad = (end - first) * page - bytes;
  media_.pad += pad;
  buffer_.Force(pad);
  const Bytes unit = parameters_.flash.program_unit;
  const Bytes moved = work.moved * page;
  media_.moved += moved;
  buffer_.Force(moved);
  for (const Ftl::Unit& whole : work.units) {
    ++in_program_[whole.number];
    AddTask(whole.die, now,
            {.kind = Task::Kind::kProgram,
             .count = 1,
             .owner = whole.number,
             .buffered = unit,
             .reads = whole.reads * parameters_.flash.read_page,
             .conventional = true});
  }
  for (std::size_t i = 0; i < work.erased.size(); ++i) {
    for (std::uint32_t die = 0; die < ftl_->dies(); ++die) {
      AddTask(die, now, {Task::Kind::kErase, 1, 0, 0, 0});
    }
    media_.erases += ftl_->dies();
  }
}

void Drive::Open(Time arrival, std::uint32_t tag) {
  const Status status = zones_->Open(under_way_[tag].command.zone);
  if (status != Status::kOk) return Fail(arrival, tag, status);
  Done(arrival + parameters_.zones->open + front_.format(), tag);
}

void Drive::Close(Time arrival, std::uint32_t tag) {
  const Status status = zones_->Close(under_way_[tag].command.zone);
  if (status != Status::kOk) return Fail(arrival, tag, status);
  Done(arrival + parameters_.zones->close + front_.format(), tag);
}

// Programs the rest of the zone without data from the host. A partial unit that waits in the buffer
// is programmed too.
void Drive::Finish(Time arrival, std::uint32_t tag) {
  const ZoneParameters& parameters = *parameters_.zones;
  const std::uint32_t number = under_way_[tag].command.zone;
  Bytes rest = 0;
  const bool empty = number < zones_->count() && zones_->at(number).written == 0;
  const Status status = zones_->Finish(number, &rest);
  if (status != Status::kOk) return Fail(arrival, tag, status);
  if (empty || rest == 0) {
    return Done(arrival + parameters.finish_empty + front_.format(), tag);
  }
  Zone& zone = zones_->at(number);
  const Bytes unit = parameters_.flash.program_unit;
  std::vector<std::uint32_t> programs(parameters_.flash.dies(), 0);
  const Bytes first = zone.sent / unit;
  // In a replay, the capacity need not be a multiple of the unit.
  const Bytes end = (parameters.capacity + unit - 1) / unit;
  media_.pad += (end - first) * unit - (zone.written - zone.sent);
  for (Bytes at = first; at < end; ++at) {
    ++programs[zones_->DieOf(number, at)];
    ++under_way_[tag].parts;
    ++waited_tasks_;
  }
  // The first unit also holds the data that waits in the buffer.
  const std::uint32_t die = zones_->DieOf(number, first);
  --programs[die];
  AddTask(die, arrival, {Task::Kind::kFill, 1, number, zone.part(), 0, tag, zone.life});
  zone.sent = zone.buffered = zone.written;
  for (std::uint32_t i = 0; i < programs.size(); ++i) {
    if (programs[i] == 0) continue;
    AddTask(i, arrival, {Task::Kind::kFill, programs[i], number, 0, 0, tag, zone.life});
  }
}

void Drive::Reset(Time arrival, std::uint32_t tag) {
  const ZoneParameters& parameters = *parameters_.zones;
  const std::uint32_t number = under_way_[tag].command.zone;
  if (number >= zones_->count()) return Fail(arrival, tag, Status::kOutOfRange);
  const Zone& zone = zones_->at(number);
  Time cost = (zone.finished ? parameters.reset_finished : parameters.reset)
                  .At(zone.written, parameters.capacity);
  // Uniform in cost +- spread.
  const auto spread =
      static_cast<Time>(static_cast<unsigned __int128>(cost) * parameters.reset_spread / kWhole);
  cost += random_.Below(2 * spread + 1) - spread;
  buffer_.Release(zone.part());
  zones_->Reset(number);
  const bool exclusive = random_.Below(kWhole) < parameters.reset_exclusive;
  core_queue_.push_back({.tag = tag, .cost = cost, .exclusive = exclusive});
  if (core_queue_.size() == 1) BeginReset(arrival);
}

void Drive::BeginReset(Time now) {
  const Section& section = core_queue_.front();
  core_end_ = now + section.cost;
  if (section.exclusive) front_.Block(core_end_);
  events_->Add(core_end_, EventKind::kReset, 0, section.tag);
}

// Ends the first reset in the queue, unless commands have delayed it.
void Drive::EndReset(Time now, std::uint32_t tag) {
  if (core_end_ > now) return events_->Add(core_end_, EventKind::kReset, 0, tag);
  core_queue_.pop_front();
  if (!core_queue_.empty()) BeginReset(now);
  const std::uint32_t number = under_way_[tag].command.zone;
  under_way_[tag].parts = 1;
  if (parameters_.zones->erase_at == EraseAt::kReset && zones_->at(number).stale) {
    return EraseZone(now, number, tag);
  }
  Part(now + front_.format(), tag);
}

// Erases a block on each die of the zone. The command waits for the erases.
void Drive::EraseZone(Time now, std::uint32_t number, std::uint32_t tag) {
  Zone& zone = zones_->at(number);
  zone.stale = false;
  ++zone.erases;
  const std::uint32_t dies = parameters_.zones->dies();
  media_.erases += dies;
  if (parameters_.zones->erase_at == EraseAt::kNone) return Part(now, tag);
  under_way_[tag].parts += dies - 1;
  waited_tasks_ += dies;
  for (std::uint32_t i = 0; i < dies; ++i) {
    AddTask(zones_->DieOf(number, i), now, {Task::Kind::kErase, 1, number, 0, 0, tag});
  }
}

void Drive::Handle(const Event& event) {
  const std::uint32_t tag = event.tag();
  if (event.kind() == EventKind::kPageRead) {
    const UnderWay& way = under_way_[tag];
    const Time ready = dies_.Transfer(event.die(), event.time, way.part) +
                       front_.parameters().read + front_.format();
    return Part(front_.Leave(event.time, ready, way.part), tag);
  }
  if (event.kind() == EventKind::kReset) return EndReset(event.time, tag);
  Task ended{};
  if (dies_.Advance(event.die(), event.time, &ended)) Ended(event.time, ended);
}

Time Drive::EarliestDone(const Event& event) const {
  const bool on_dies = waited_tasks_ > 0 || buffer_.has_waiters();
  if (event.kind() == EventKind::kDie && !on_dies) return kNever;
  if (event.kind() != EventKind::kPageRead) return event.time;
  const UnderWay& way = under_way_[event.tag()];
  return way.last_page + dies_.TransferTime(way.part) + front_.ReadLatency(way.part);
}

Time Drive::EarliestDone() const {
  Time earliest = kNever;
  events_->Each([&](const Event& event) { earliest = std::min(earliest, EarliestDone(event)); });
  return earliest;
}

Time Drive::EarliestDone(std::uint32_t tag) const {
  Time own = kNever;
  Time others = kNever;  // without an event of its own, only these continue the command
  events_->Each([&](const Event& event) {
    const bool is_own = event.kind() != EventKind::kDie && event.tag() == tag;
    Time& earliest = is_own ? own : others;
    earliest = std::min(earliest, EarliestDone(event));
  });
  return own != kNever ? own : others;
}

void Drive::Ended(Time now, const Task& task) {
  if (task.kind == Task::Kind::kErase) {
    if (task.tag == Task::kNobody) return;
    --waited_tasks_;
    return Part(now, task.tag);
  }
  media_.programmed += parameters_.flash.program_unit;
  if (task.conventional) {
    --in_program_[task.owner];
  } else {
    Zone& zone = zones_->at(task.owner);
    if (zone.life == task.life) zone.programmed += task.buffered;
    if (task.kind == Task::Kind::kFill) {
      --waited_tasks_;
      Part(now + parameters_.zones->finish + front_.format(), task.tag);
    }
  }
  if (task.buffered == 0) return;
  leaving_ -= task.buffered;
  buffer_.Release(task.buffered);
  Admit(now);
}

void Drive::AddTask(std::uint32_t die, Time now, const Task& task) {
  leaving_ += task.buffered;
  dies_.Add(die, now, task);
}

// Takes waiting writes into the buffer while there is space.
void Drive::Admit(Time now) {
  Buffer::Waiter write{};
  for (;;) {
    MakeRoom(now);
    // If nothing will leave the buffer, a wait would not end: admits the write without space.
    if (!buffer_.Admit(&write, leaving_ == 0)) return;
    Accept(now, under_way_[write.tag]);
    Part(std::max(write.ready, now), write.tag);
  }
}

// Partial units wait for the next data of their zones, and may fill the buffer. Programs them with
// padding, the largest first, until the first waiting write will have space.
void Drive::MakeRoom(Time now) {
  while (zones_ && buffer_.Lacks() > leaving_) {
    const std::uint32_t number = zones_->LargestPart();
    const Bytes part = zones_->at(number).part();
    if (part == 0) return;
    ProgramUnit(now, number, part);
  }
}

}  // namespace zonemodel
