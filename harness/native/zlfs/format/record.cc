#include "zlfs/format/record.h"

#include <limits>

#include "zlfs/format/codec.h"

namespace zlfs {
namespace {

constexpr std::uint64_t kMaxZone = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMaxLifetime = 5;  // Env::WLTH_EXTREME

void Put(const StateRecord& r, std::string* to) { PutVarint(to, r.next_file); }
void Put(const CreateRecord& r, std::string* to) {
  PutVarint(to, r.file);
  PutVarint(to, static_cast<std::uint64_t>(r.kind));
  PutVarint(to, r.modified);
  PutString(to, r.name);
}
void Put(const ExtentsRecord& r, std::string* to) {
  PutVarint(to, r.file);
  PutVarint(to, r.from);
  PutVarint(to, r.lifetime);
  PutVarint(to, r.extents.size());
  for (const Extent& extent : r.extents) {
    PutVarint(to, extent.zone);
    PutVarint(to, extent.offset);
    PutVarint(to, extent.length);
  }
}
void Put(const RenameRecord& r, std::string* to) {
  PutVarint(to, r.file);
  PutString(to, r.name);
}
void Put(const DeleteRecord& r, std::string* to) { PutVarint(to, r.file); }
void Put(const RenameDirRecord& r, std::string* to) {
  PutString(to, r.from);
  PutString(to, r.to);
}
void Put(const LogZoneRecord& r, std::string* to) {
  PutVarint(to, r.zone);
  PutVarint(to, r.offset);
}
void Put(const LogZoneEndRecord& r, std::string* to) { PutVarint(to, r.zone); }
void Put(const TotalsRecord& r, std::string* to) {
  PutVarint(to, r.collected_bytes);
  PutVarint(to, r.collected_zones);
  PutVarint(to, r.finishes);
  PutVarint(to, r.resets);
}

void Take(Decoder* from, StateRecord* r) { r->next_file = from->Varint(); }
void Take(Decoder* from, CreateRecord* r) {
  r->file = from->Varint();
  r->kind = static_cast<FileKind>(from->Varint(static_cast<std::uint64_t>(FileKind::kLog)));
  r->modified = from->Varint();
  r->name = from->String();
}
void Take(Decoder* from, ExtentsRecord* r) {
  r->file = from->Varint();
  r->from = from->Varint();
  r->lifetime = static_cast<std::uint8_t>(from->Varint(kMaxLifetime));
  for (std::uint64_t left = from->Varint(); left > 0 && from->ok(); --left) {
    Extent extent;
    extent.zone = static_cast<std::uint32_t>(from->Varint(kMaxZone));
    extent.offset = from->Varint();
    extent.length = from->Varint();
    r->extents.push_back(extent);
  }
}
void Take(Decoder* from, RenameRecord* r) {
  r->file = from->Varint();
  r->name = from->String();
}
void Take(Decoder* from, DeleteRecord* r) { r->file = from->Varint(); }
void Take(Decoder* from, RenameDirRecord* r) {
  r->from = from->String();
  r->to = from->String();
}
void Take(Decoder* from, LogZoneRecord* r) {
  r->zone = static_cast<std::uint32_t>(from->Varint(kMaxZone));
  r->offset = from->Varint();
}
void Take(Decoder* from, LogZoneEndRecord* r) {
  r->zone = static_cast<std::uint32_t>(from->Varint(kMaxZone));
}
void Take(Decoder* from, TotalsRecord* r) {
  r->collected_bytes = from->Varint();
  r->collected_zones = from->Varint();
  r->finishes = from->Varint();
  r->resets = from->Varint();
}

template <typename Kind>
bool TakeIf(std::uint64_t type, std::string_view fields, std::vector<Record>* records) {
  if (type != Kind::kType) return false;
  Decoder decoder(fields);
  Kind record;
  Take(&decoder, &record);
  if (!decoder.ok() || !decoder.empty()) return false;
  records->emplace_back(std::move(record));
  return true;
}

template <typename... Kinds>
bool TakeAny(std::uint64_t type, std::string_view fields, std::vector<Record>* records,
             const std::variant<Kinds...>* /*only its types*/) {
  return (TakeIf<Kinds>(type, fields, records) || ...);
}

}  // namespace

void AppendRecord(const Record& record, std::string* to) {
  std::visit(
      [to](const auto& kind) {
        std::string fields;
        Put(kind, &fields);
        PutVarint(to, kind.kType);
        PutString(to, fields);
      },
      record);
}

bool DecodeRecords(std::string_view body, std::vector<Record>* records) {
  Decoder decoder(body);
  while (!decoder.empty()) {
    const std::uint64_t type = decoder.Varint();
    const std::string_view fields = decoder.String();
    if (!decoder.ok()) return false;
    if (!TakeAny(type, fields, records, static_cast<const Record*>(nullptr))) return false;
  }
  return true;
}

}  // namespace zlfs
