#include "model/zones/zones.h"

#include <algorithm>
#include <numeric>

namespace zonemodel {

Zones::Zones(const ZoneParameters& parameters, const FlashParameters& flash)
    : parameters_(parameters),
      channels_(flash.channels),
      groups_(flash.dies() / parameters.dies()),
      zones_(parameters.count) {
  // The golden ratio spreads the first dies of zones, so that zones that are written together use
  // different dies.
  const std::uint32_t dies = parameters.dies();
  stride_ = dies * 618 / 1000 + 1;
  while (std::gcd(stride_, dies) != 1) ++stride_;
  // Die numbers run over the channels first. A zone uses neighbouring channels, and the same ways
  // of each.
  const std::uint32_t columns = channels_ / parameters.channels;  // groups in a row of channels
  for (std::uint32_t group = 0; group < groups_; ++group) {
    for (std::uint32_t place = 0; place < dies; ++place) {
      const std::uint32_t channel =
          group % columns * parameters.channels + place % parameters.channels;
      const std::uint32_t way = group / columns * parameters.ways + place / parameters.channels;
      dies_.push_back(way * channels_ + channel);
    }
  }
}

// Opens a zone if the limits allow it. At the limit of open zones, closes the zone that was
// implicitly opened first, as the specification allows.
Status Zones::TakeOpen(std::uint32_t number, ZoneState state) {
  Zone& zone = zones_[number];
  const bool active = zone.active();
  if (!active && parameters_.max_active != 0 && active_ == parameters_.max_active) {
    return Status::kTooManyActive;
  }
  if (!zone.open() && parameters_.max_open != 0 && open_ == parameters_.max_open) {
    while (!implicit_.empty() && zones_[implicit_.front()].state != ZoneState::kImplicit) {
      implicit_.pop_front();
    }
    if (implicit_.empty()) return Status::kTooManyOpen;
    zones_[implicit_.front()].state = ZoneState::kClosed;
    implicit_.pop_front();
    --open_;
  }
  if (!active) ++active_;
  if (!zone.open()) ++open_;
  zone.state = state;
  if (state == ZoneState::kImplicit && parameters_.max_open != 0) {
    std::erase(implicit_, number);  // the zone is now the last one opened
    implicit_.push_back(number);
  }
  return Status::kOk;
}

void Zones::Leave(std::uint32_t number, ZoneState state) {
  Zone& zone = zones_[number];
  if (zone.open()) --open_;
  if (zone.active() && state != ZoneState::kClosed) --active_;
  zone.state = state;
}

Status Zones::Write(std::uint32_t number, Bytes offset, Bytes bytes, bool append, bool* opened) {
  *opened = false;
  if (number >= zones_.size()) return Status::kOutOfRange;
  Zone& zone = zones_[number];
  if (zone.state == ZoneState::kFull) return Status::kFull;
  if (!append && offset != zone.written) return Status::kInvalidWrite;
  if (zone.written + bytes > parameters_.capacity) return Status::kBoundary;
  if (!zone.open()) {
    const bool empty = zone.state == ZoneState::kEmpty;
    const Status status = TakeOpen(number, ZoneState::kImplicit);
    if (status != Status::kOk) return status;
    *opened = empty;
  }
  zone.written += bytes;
  if (zone.written == parameters_.capacity) Leave(number, ZoneState::kFull);
  return Status::kOk;
}

Status Zones::Read(std::uint32_t number, Bytes offset, Bytes bytes) const {
  if (number >= zones_.size()) return Status::kOutOfRange;
  return offset + bytes > parameters_.capacity ? Status::kBoundary : Status::kOk;
}

Status Zones::Open(std::uint32_t number) {
  if (number >= zones_.size()) return Status::kOutOfRange;
  if (zones_[number].state == ZoneState::kFull) return Status::kInvalidTransition;
  return TakeOpen(number, ZoneState::kExplicit);
}

Status Zones::Close(std::uint32_t number) {
  if (number >= zones_.size()) return Status::kOutOfRange;
  if (!zones_[number].active()) return Status::kInvalidTransition;
  if (zones_[number].open()) Leave(number, ZoneState::kClosed);
  return Status::kOk;
}

Status Zones::Finish(std::uint32_t number, Bytes* rest) {
  *rest = 0;
  if (number >= zones_.size()) return Status::kOutOfRange;
  Zone& zone = zones_[number];
  if (zone.state == ZoneState::kFull) return Status::kOk;
  // A finish first opens an empty zone, so the limits apply.
  if (zone.state == ZoneState::kEmpty) {
    const Status status = TakeOpen(number, ZoneState::kExplicit);
    if (status != Status::kOk) return status;
  }
  *rest = parameters_.capacity - zone.written;
  zone.finished = true;
  Leave(number, ZoneState::kFull);
  return Status::kOk;
}

Status Zones::Reset(std::uint32_t number) {
  if (number >= zones_.size()) return Status::kOutOfRange;
  Zone& zone = zones_[number];
  if (zone.written > 0 || zone.finished) {
    zone.stale = true;
    ++zone.resets;
  }
  Leave(number, ZoneState::kEmpty);
  zone.finished = false;
  ++zone.life;
  zone.written = zone.buffered = zone.sent = zone.programmed = 0;
  return Status::kOk;
}

std::uint32_t Zones::DieOf(std::uint32_t zone, std::uint64_t unit) const {
  const std::uint32_t parallel = parameters_.dies();
  const std::uint64_t place = (unit + std::uint64_t{zone / groups_} * stride_) % parallel;
  return dies_[zone % groups_ * parallel + place];
}

std::uint32_t Zones::LargestPart() const {
  return static_cast<std::uint32_t>(std::ranges::max_element(zones_, {}, &Zone::part) -
                                    zones_.begin());
}

Status Zones::Prepare(std::uint32_t number, ZoneState state, Bytes written, bool finished,
                      bool stale) {
  if (number >= zones_.size()) return Status::kOutOfRange;
  Leave(number, ZoneState::kEmpty);
  Zone& zone = zones_[number];
  if (state == ZoneState::kFull) zone.state = state;
  if (state == ZoneState::kExplicit || state == ZoneState::kImplicit) {
    const Status status = TakeOpen(number, state);
    if (status != Status::kOk) return status;
  }
  if (state == ZoneState::kClosed) {  // it does not count as an open zone
    if (parameters_.max_active != 0 && active_ == parameters_.max_active) {
      return Status::kTooManyActive;
    }
    ++active_;
    zone.state = state;
  }
  zone.finished = finished;
  zone.stale = stale;
  ++zone.life;
  zone.written = zone.buffered = zone.sent = zone.programmed = written;
  return Status::kOk;
}

}  // namespace zonemodel
