// States, write pointers and limits of zones, as in the NVMe Zoned Namespace specification. They
// have no times.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "model/command.h"
#include "model/parameters.h"

namespace zonemodel {

enum class ZoneState : std::uint8_t { kEmpty, kImplicit, kExplicit, kClosed, kFull };

struct Zone {
  ZoneState state = ZoneState::kEmpty;
  bool finished = false;   // a finish made it full
  bool stale = false;      // it was reset, and its blocks are not erased yet
  Bytes written = 0;       // by the host: bytes up to the write pointer, or up to the finish
  Bytes buffered = 0;      // of those, accepted into the write buffer so far
  Bytes sent = 0;          // of those, given to programs
  Bytes programmed = 0;    // of those, on flash
  std::uint32_t life = 0;  // each reset and each preparation begins a new life
  std::uint32_t resets = 0;
  std::uint32_t erases = 0;

  [[nodiscard]] bool open() const {
    return state == ZoneState::kImplicit || state == ZoneState::kExplicit;
  }
  [[nodiscard]] bool active() const { return open() || state == ZoneState::kClosed; }
  // Returns the bytes in the buffer that wait for the rest of their program unit.
  [[nodiscard]] Bytes part() const { return buffered - sent; }
};

class Zones {
 public:
  Zones(const ZoneParameters& parameters, const FlashParameters& flash);

  // Checks a write or an append, and moves the write pointer. An append ignores `offset`. Sets
  // `opened` to whether an empty zone was opened.
  Status Write(std::uint32_t zone, Bytes offset, Bytes bytes, bool append, bool* opened);
  Status Read(std::uint32_t zone, Bytes offset, Bytes bytes) const;
  Status Open(std::uint32_t zone);
  Status Close(std::uint32_t zone);
  // Sets `rest` to the bytes that are not written.
  Status Finish(std::uint32_t zone, Bytes* rest);
  Status Reset(std::uint32_t zone);

  Zone& at(std::uint32_t zone) { return zones_[zone]; }
  [[nodiscard]] const Zone& at(std::uint32_t zone) const { return zones_[zone]; }
  [[nodiscard]] std::uint32_t count() const { return parameters_.count; }
  // Returns the die of a zone's program unit.
  [[nodiscard]] std::uint32_t DieOf(std::uint32_t zone, std::uint64_t unit) const;

  // Returns the zone with the largest partial unit in the buffer; of several, the first.
  [[nodiscard]] std::uint32_t LargestPart() const;

  // Sets the state of a zone that may have any state.
  Status Prepare(std::uint32_t zone, ZoneState state, Bytes written, bool finished, bool stale);

 private:
  Status TakeOpen(std::uint32_t zone, ZoneState state);
  void Leave(std::uint32_t zone, ZoneState state);

  const ZoneParameters parameters_;
  const std::uint32_t channels_;     // of the drive
  const std::uint32_t groups_;       // of dies; a zone uses the dies of one group
  std::uint32_t stride_;             // between the first dies of neighbouring zones of a group
  std::vector<std::uint32_t> dies_;  // of each group, in the order of units
  std::vector<Zone> zones_;
  std::uint32_t open_ = 0;
  std::uint32_t active_ = 0;
  std::deque<std::uint32_t> implicit_;  // implicitly opened, oldest first; outdated entries stay
};

}  // namespace zonemodel
