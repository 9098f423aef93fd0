#include "model/load/client.h"

#include <algorithm>

namespace zonemodel {

Client::Client(const ClientJob& job, const Parameters& parameters, Drive* drive)
    : job_(job),
      zone_capacity_(parameters.zones ? parameters.zones->capacity : 0),
      block_(parameters.front.logical_block),
      drive_(drive),
      random_(job.seed, 0) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < job.mix.size(); ++i) {
    if (job.mix[i] == 0) continue;
    sum += job.mix[i];
    choice_.emplace_back(sum, static_cast<Operation>(i));
  }
  for (std::uint32_t i = 0; i < job.active; ++i) lanes_.push_back({.zone = i});
  per_zone_ = zone_capacity_ / job.size;
  addresses_ =
      job.conventional ? (job.range_end - job.range_begin) / job.size : per_zone_ * zone_count();
  hot_ = static_cast<std::uint64_t>(static_cast<unsigned __int128>(addresses_) * job.hot_range /
                                    kWhole);
}

Time Client::Due(std::uint64_t number) const {
  const unsigned __int128 amount =
      static_cast<unsigned __int128>(number) * (job_.rate->commands ? 1 : job_.size);
  return job_.start + static_cast<Time>(amount * kSecond / job_.rate->per_second);
}

Operation Client::Choose() {
  if (choice_.size() == 1) return choice_.front().second;
  const std::uint64_t draw = random_.Below(choice_.back().first);
  for (const auto& [sum, operation] : choice_) {
    if (draw < sum) return operation;
  }
  return choice_.back().second;
}

bool Client::Next(std::uint32_t slot, Command* command) {
  if (job_.commands != 0 && sent_ == job_.commands) return false;
  if (job_.bytes != 0 && sent_bytes_ >= job_.bytes) return false;
  *command = {.operation = Operation::kRead,
              .conventional = job_.conventional,
              .zone = 0,
              .offset = 0,
              .bytes = job_.size};
  if (!job_.sequence.empty()) {
    if (!NextOfSequence(command)) return false;
  } else {
    command->operation = Choose();
    switch (command->operation) {
      case Operation::kWrite:
      case Operation::kAppend:
        if (job_.conventional) {
          NextAddress(command);
        } else if (!NextWrite(slot, command)) {
          return false;
        }
        break;
      case Operation::kRead:
      case Operation::kTrim:
        NextAddress(command);
        break;
      default:
        command->bytes = 0;
        command->zone = job_.zones.first + cursor_;
        if (command->operation == Operation::kFlush || job_.conventional) break;
        if (++cursor_ == zone_count()) cursor_ = 0;
        if (command->operation >= Operation::kFinish) Refill(command->zone);
    }
  }
  ++sent_;
  sent_bytes_ += command->bytes;
  return true;
}

void Client::Refill(std::uint32_t zone) {
  if (!job_.refill) return;
  const Fill& fill = *job_.refill;
  const Status status = drive_->Prepare(zone, fill.state, fill.written, fill.finished, fill.used);
  if (status == Status::kOk) return;
  throw BadInput("client '" + job_.name + "': refill exceeds the limits of active or open zones",
                 "refill to a full or an empty zone, or prepare fewer zones");
}

bool Client::NextOfSequence(Command* command) {
  for (;;) {
    if (step_ == job_.sequence.size()) {
      step_ = 0;
      if (++cursor_ == zone_count()) {
        // A pass without a command takes no time, so passes would follow without end.
        if (!job_.repeat || sent_ == pass_begin_) return false;
        pass_begin_ = sent_;
        cursor_ = 0;
      }
    }
    command->zone = job_.zones.first + cursor_;
    if (step_ == 0 && times_ == 0) Refill(command->zone);
    const Step& step = job_.sequence[step_];
    command->operation = step.operation;
    const bool writes = step.operation == Operation::kWrite || step.operation == Operation::kAppend;
    const Bytes written = drive_->zones()->at(command->zone).written;
    Bytes bytes = writes || step.operation == Operation::kRead ? job_.size : 0;
    bool more = times_ < step.times;
    if (step.up_to) {
      // If the zone did not grow, it refused the step's last command and would refuse the next one.
      more = written + block_ <= *step.up_to && (times_ == 0 || written > step_written_);
      if (more) bytes = std::min(bytes, (*step.up_to - written) / block_ * block_);
    }
    if (!more) {
      ++step_;
      times_ = 0;
      continue;
    }
    ++times_;
    step_written_ = written;
    if (writes) bytes = std::min(bytes, std::max(block_, zone_capacity_ - written));
    command->offset = step.operation == Operation::kRead ? 0 : written;
    command->bytes = bytes;
    return true;
  }
}

bool Client::NextWrite(std::uint32_t slot, Command* command) {
  Lane& lane = LaneOf(slot);
  for (;;) {
    command->zone = job_.zones.first + lane.zone;
    const Zone& zone = drive_->zones()->at(command->zone);
    const Bytes left = zone_capacity_ - std::min(zone.written + lane.queued, zone_capacity_);
    if (zone.state != ZoneState::kFull && left > 0) {
      command->offset = zone.written + lane.queued;
      command->bytes = std::min(job_.size, left);
      return true;
    }
    // Queued writes have offsets in this zone, so the lane cannot leave it.
    if (lane.queued > 0) {
      throw BadInput("client '" + job_.name + "': its merged writes reach the end of zone " +
                         std::to_string(command->zone),
                     "a merging stack writes within one zone: shorten duration, or set bytes");
    }
    const std::uint32_t following = lane.zone + job_.active;
    if (following >= zone_count() && job_.at_full == AtFull::kNext) return false;
    lane.zone = following < zone_count() ? following : following % job_.active;
    const std::uint32_t next = job_.zones.first + lane.zone;
    if (drive_->zones()->at(next).state != ZoneState::kFull) continue;
    if (job_.at_full == AtFull::kReset) {
      drive_->Prepare(next, ZoneState::kEmpty, 0, false, false);
    } else if (job_.at_full == AtFull::kResetCommand) {
      *command = {.operation = Operation::kReset,
                  .conventional = false,
                  .zone = next,
                  .offset = 0,
                  .bytes = 0};
      return true;
    }
  }
}

void Client::NextAddress(Command* command) {
  const std::uint64_t index = NextIndex();
  if (job_.conventional) {
    command->offset = job_.range_begin + index * job_.size;
    return;
  }
  command->zone = job_.zones.first + static_cast<std::uint32_t>(index / per_zone_);
  std::uint64_t at = index % per_zone_;
  const Bytes written = drive_->zones()->at(command->zone).written;
  if ((at + 1) * job_.size > written && written >= job_.size) at %= written / job_.size;
  command->offset = at * job_.size;
}

std::uint64_t Client::NextIndex() {
  if (job_.sequential) {
    const std::uint64_t index = address_;
    if (++address_ == addresses_) address_ = 0;
    return index;
  }
  if (job_.run == 0) return RandomIndex();
  if (run_left_ == 0) {
    run_left_ = std::max(Bytes{1}, job_.run / job_.size);
    address_ = RandomIndex() / run_left_ * run_left_;
  }
  --run_left_;
  const std::uint64_t index = address_;
  if (++address_ == addresses_) run_left_ = 0;
  return index;
}

std::uint64_t Client::RandomIndex() {
  if (hot_ == 0) return random_.Below(addresses_);
  if (random_.Below(kWhole) < job_.hot_commands) return random_.Below(hot_);
  return hot_ + random_.Below(addresses_ - hot_);
}

}  // namespace zonemodel
