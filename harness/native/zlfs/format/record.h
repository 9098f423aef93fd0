// Records: the changes of the name space that frames carry. A record is its type (one varint: its
// place in `Record`, from 1 on), the size of what follows, and its fields (`Fields` names them in
// order) as varints and length-prefixed strings.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

namespace zlfs {

// Where a part of a file lies. `offset` is relative to the start of the zone, in bytes.
struct Extent {
  std::uint32_t zone = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  std::uint64_t end() const { return offset + length; }
  auto operator<=>(const Extent&) const = default;
};

enum class FileKind : std::uint8_t {
  kData,  // placed by records
  kLog,   // written in pieces
};

// Ids from `next_file` on were never used. First record of a snapshot.
struct StateRecord {
  std::uint64_t next_file = 0;

  static auto Fields(auto& r) { return std::tie(r.next_file); }
};

// A new, empty file; one that has the name so far is deleted.
struct CreateRecord {
  std::uint64_t file = 0;
  FileKind kind = FileKind::kData;
  std::uint64_t modified = 0;  // seconds since 1970
  std::string name;

  static auto Fields(auto& r) { return std::tie(r.file, r.kind, r.modified, r.name); }
};

// Behind byte `from` the file consists of these extents and nothing else.
struct ExtentsRecord {
  std::uint64_t file = 0;
  std::uint64_t from = 0;
  std::uint8_t lifetime = 0;  // Env::WriteLifeTimeHint of the file
  std::vector<Extent> extents;

  static auto Fields(auto& r) { return std::tie(r.file, r.from, r.lifetime, r.extents); }
};

// Another name; a file that has it so far is deleted.
struct RenameRecord {
  std::uint64_t file = 0;
  std::string name;

  static auto Fields(auto& r) { return std::tie(r.file, r.name); }
};

struct DeleteRecord {
  std::uint64_t file = 0;

  static auto Fields(auto& r) { return std::tie(r.file); }
};

// Every name that begins with `from`/ begins with `to`/ from now on.
struct RenameDirRecord {
  std::string from;
  std::string to;

  static auto Fields(auto& r) { return std::tie(r.from, r.to); }
};

// From `offset` on the zone consists of pieces.
struct LogZoneRecord {
  std::uint32_t zone = 0;
  std::uint64_t offset = 0;

  static auto Fields(auto& r) { return std::tie(r.zone, r.offset); }
};

// The zone is no log zone any more; what is alive in it was said by extents records.
struct LogZoneEndRecord {
  std::uint32_t zone = 0;

  static auto Fields(auto& r) { return std::tie(r.zone); }
};

// Counts since mkfs, as of the last roll-over or clean end.
struct TotalsRecord {
  std::uint64_t collected_bytes = 0;  // content that the collector moved
  std::uint64_t collected_zones = 0;
  std::uint64_t finishes = 0;
  std::uint64_t resets = 0;

  static auto Fields(auto& r) {
    return std::tie(r.collected_bytes, r.collected_zones, r.finishes, r.resets);
  }
};

// Types are added at the end: devices have these numbers.
using Record = std::variant<StateRecord, CreateRecord, ExtentsRecord, RenameRecord, DeleteRecord,
                            RenameDirRecord, LogZoneRecord, LogZoneEndRecord, TotalsRecord>;

void AppendRecord(const Record& record, std::string* to);
// All records of a frame. False: malformed.
bool DecodeRecords(std::string_view body, std::vector<Record>* records);

}  // namespace zlfs
