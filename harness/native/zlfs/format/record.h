// Records: changes of the name space, stored in frames. A record consists of its type, the size of
// the rest, and its fields. The type is a varint: the index in `Record`, starting at 1. Fields are
// varints and length-prefixed strings; `Fields` lists them in order.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

namespace zlfs {

// Location of a part of a file. `offset` is in bytes from the start of the zone.
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

// First record of a snapshot. Ids from `next_file` upwards have never been used.
struct StateRecord {
  std::uint64_t next_file = 0;

  static auto Fields(auto& r) { return std::tie(r.next_file); }
};

// Creates an empty file. An existing file with this name loses the name.
struct CreateRecord {
  std::uint64_t file = 0;
  FileKind kind = FileKind::kData;
  std::uint64_t modified = 0;  // seconds since 1970
  std::string name;

  static auto Fields(auto& r) { return std::tie(r.file, r.kind, r.modified, r.name); }
};

// From byte `from`, the file consists of exactly these extents.
struct ExtentsRecord {
  std::uint64_t file = 0;
  std::uint64_t from = 0;
  std::uint8_t lifetime = 0;  // Env::WriteLifeTimeHint of the file
  std::vector<Extent> extents;

  static auto Fields(auto& r) { return std::tie(r.file, r.from, r.lifetime, r.extents); }
};

// Renames a file that has one name. An existing file with the new name loses it.
struct RenameRecord {
  std::uint64_t file = 0;
  std::string name;

  static auto Fields(auto& r) { return std::tie(r.file, r.name); }
};

// Deletes a file that has one name.
struct DeleteRecord {
  std::uint64_t file = 0;

  static auto Fields(auto& r) { return std::tie(r.file); }
};

// Replaces `from`/ by `to`/ at the start of every name.
struct RenameDirRecord {
  std::string from;
  std::string to;

  static auto Fields(auto& r) { return std::tie(r.from, r.to); }
};

// From `offset`, the zone consists of pieces.
struct LogZoneRecord {
  std::uint32_t zone = 0;
  std::uint64_t offset = 0;

  static auto Fields(auto& r) { return std::tie(r.zone, r.offset); }
};

// The zone is no longer a log zone. Extents records already describe its live data.
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

// The file has pieces in the log zone. So if the zone cannot be read, recovery finds which files
// lost their ends.
struct LogFileRecord {
  std::uint64_t file = 0;
  std::uint32_t zone = 0;

  static auto Fields(auto& r) { return std::tie(r.file, r.zone); }
};

// Gives a file one more name. An existing file with this name loses it.
struct LinkRecord {
  std::uint64_t file = 0;
  std::string name;

  static auto Fields(auto& r) { return std::tie(r.file, r.name); }
};

// Removes a name of a file that has several.
struct UnlinkRecord {
  std::string name;

  static auto Fields(auto& r) { return std::tie(r.name); }
};

// Add new types at the end: the indices are stored on devices.
using Record = std::variant<StateRecord, CreateRecord, ExtentsRecord, RenameRecord, DeleteRecord,
                            RenameDirRecord, LogZoneRecord, LogZoneEndRecord, TotalsRecord,
                            LogFileRecord, LinkRecord, UnlinkRecord>;

void AppendRecord(const Record& record, std::string* to);
// Decodes all records of a frame. Returns false if the frame is malformed.
bool DecodeRecords(std::string_view body, std::vector<Record>* records);

}  // namespace zlfs
