// The zones that hold pieces of WALs, and the records with which recovery finds them.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "zlfs/fs/volume_state.h"

namespace zlfs {

// All functions require the state mutex.
class LogZones {
 public:
  explicit LogZones(VolumeState* state) : state_(state) {}

  // Takes a log zone of an earlier mount. A later mount reads its pieces again.
  void Keep(std::uint32_t zone, std::uint64_t offset) { zones_[zone] = {.offset = offset}; }
  // Call this before the file's next piece goes to the zone. Appends the records that recovery
  // needs to find the piece.
  void Join(File* file, std::uint32_t zone);
  // Appends records of the content in the zone, and of its end: recovery then reads no pieces
  // there. The next sync of each file with pieces in the zone makes the records durable.
  void End(std::uint32_t zone);
  // Returns whether the zone has no pieces, or the record of its end is durable. Appends this
  // record if it is missing.
  bool Ended(std::uint32_t zone);
  // Call this after a reset of the zone.
  void Forget(std::uint32_t zone);
  // Appends records of all zones that have not ended, and of their files.
  void Describe(std::vector<Record>* records) const;

 private:
  struct LogZone {
    std::uint64_t offset = 0;    // start of the pieces in the zone
    std::uint64_t position = 0;  // log position of the LogZoneRecord
    std::uint64_t end = 0;       // log position of the LogZoneEndRecord; 0: not appended yet
  };

  VolumeState* const state_;
  std::map<std::uint32_t, LogZone> zones_;
};

}  // namespace zlfs
