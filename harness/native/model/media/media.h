// Plays recorded commands of conventional devices on the translation layer, without times. The
// result is the bytes that would have been written to the medium of such a drive. Each file
// continues with the state after the previous one.
//
// A file is a line "zonelab-writes-1", a line of JSON with the names of its marks ({"marks": […]}),
// and records of 24 bytes, little-endian: time in us (u64), first sector of 512 B (u64), sectors
// (u32), kind (u32). Kinds: 0 write, 1 discard, 2 write zeroes, 3 mark. A mark has its number in
// the field of the sector.

#pragma once

#include <istream>
#include <string>
#include <vector>

#include "model/ftl/ftl.h"
#include "model/parameters.h"

namespace zonemodel {

class MediaPlayer {
 public:
  // Preconditions the drive: writes every block once in order, then `rounds` times as many at
  // random.
  MediaPlayer(const Parameters& parameters, bool ignore_discards, std::uint32_t rounds);

  // Plays a file. Returns its intervals, each up to a mark: {"mark", "written", "zeroed",
  // "discarded", "programmed", "collected", "erases"}. Throws BadInput for a damaged file.
  Json Play(std::istream* file, const std::string& name);

 private:
  struct Record {
    std::uint64_t time, sector;
    std::uint32_t sectors, kind;
  };
  struct Interval {
    Bytes written = 0, zeroed = 0, discarded = 0, pages = 0, moved = 0;
    std::uint64_t erased = 0;
  };

  void Take(const Record& record, const std::string& name);
  void Write(Bytes begin, Bytes end);
  void Trim(Bytes begin, Bytes end);
  [[nodiscard]] Json Report(const std::string& mark) const;

  const bool ignore_discards_;
  const Bytes capacity_;
  Ftl ftl_;
  Ftl::Work work_;
  Interval now_;
};

// Plays files on one drive, in their order.
Json PlayMedia(const Json& model, const std::vector<std::string>& files, bool ignore_discards,
               std::uint32_t rounds);

}  // namespace zonemodel
