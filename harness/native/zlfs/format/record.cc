#include "zlfs/format/record.h"

#include <concepts>
#include <limits>

#include "zlfs/format/codec.h"
#include "zlfs/format/event.h"

namespace zlfs {
namespace {

constexpr std::uint64_t kMaxLifetime = 5;  // Env::WLTH_EXTREME

struct Writer {
  std::string* to;

  void operator()(std::uint64_t value) const { PutVarint(to, value); }
  void operator()(FileKind kind) const { PutVarint(to, static_cast<std::uint64_t>(kind)); }
  void operator()(const std::string& value) const { PutString(to, value); }
  void operator()(const std::vector<Extent>& extents) const {
    PutVarint(to, extents.size());
    for (const Extent& extent : extents) {
      (*this)(extent.zone);
      (*this)(extent.offset);
      (*this)(extent.length);
    }
  }
};

struct Reader {
  Decoder* from;

  template <std::integral Integer>
  void operator()(Integer& value) const {
    value = static_cast<Integer>(from->Varint(std::numeric_limits<Integer>::max()));
  }
  void operator()(std::uint8_t& lifetime) const {
    lifetime = static_cast<std::uint8_t>(from->Varint(kMaxLifetime));
  }
  void operator()(FileKind& kind) const {
    kind = static_cast<FileKind>(from->Varint(static_cast<std::uint64_t>(FileKind::kLog)));
  }
  void operator()(std::string& value) const { value = from->String(); }
  void operator()(std::vector<Extent>& extents) const {
    for (std::uint64_t left = from->Varint(); left > 0 && from->ok(); --left) {
      Extent& extent = extents.emplace_back();
      (*this)(extent.zone);
      (*this)(extent.offset);
      (*this)(extent.length);
    }
  }
};

// Decodes the fields into a record. The type is an index into `Kinds`. Returns false if the fields
// are malformed or the type is unknown.
template <typename... Kinds>
bool Decode(std::uint64_t type, std::string_view fields, std::variant<Kinds...>* record) {
  Decoder decoder(fields);
  std::uint64_t place = 0;
  const auto decode_if = [&]<typename Kind>(Kind kind) {
    if (type != ++place) return false;
    std::apply([&decoder](auto&... field) { (Reader{&decoder}(field), ...); }, Kind::Fields(kind));
    *record = std::move(kind);
    return decoder.ok() && decoder.empty();
  };
  return (decode_if(Kinds{}) || ...);
}

template <typename Kinds>
void Append(const Kinds& record, std::string* to) {
  std::string fields;
  std::visit(
      [&fields](const auto& kind) {
        std::apply([&fields](auto&... field) { (Writer{&fields}(field), ...); }, kind.Fields(kind));
      },
      record);
  PutVarint(to, record.index() + 1);
  PutString(to, fields);
}

template <typename Kinds>
bool DecodeNext(Decoder* decoder, std::vector<Kinds>* records) {
  const std::uint64_t type = decoder->Varint();
  const std::string_view fields = decoder->String();
  return decoder->ok() && Decode(type, fields, &records->emplace_back());
}

bool DecodeStamp(Decoder* decoder, Stamp* last) {
  const std::uint64_t after = decoder->Varint();
  last->time += after / 2;
  if (after % 2 != 0) {
    last->thread =
        static_cast<std::uint32_t>(decoder->Varint(std::numeric_limits<std::uint32_t>::max()));
  }
  return decoder->ok();
}

}  // namespace

void AppendRecord(const Record& record, std::string* to) { Append(record, to); }
void AppendEvent(const Event& event, std::string* to) { Append(event, to); }
void AppendStamp(const Stamp& stamp, Stamp* last, std::string* to) {
  const bool other = stamp.thread != last->thread;
  PutVarint(to, (stamp.time - last->time) * 2 + (other ? 1 : 0));
  if (other) PutVarint(to, stamp.thread);
  *last = stamp;
}
bool DecodeRecords(std::string_view body, std::vector<Record>* records) {
  Decoder decoder(body);
  while (!decoder.empty()) {
    if (!DecodeNext(&decoder, records)) return false;
  }
  return true;
}
bool DecodeEvents(std::string_view body, std::uint64_t version, Stamp* last,
                  std::vector<Event>* events, std::vector<Stamp>* stamps) {
  Decoder decoder(body);
  while (!decoder.empty()) {
    if (!DecodeNext(&decoder, events)) return false;
    if (version < 3) continue;
    if (!DecodeStamp(&decoder, last)) return false;
    stamps->push_back(*last);
  }
  return true;
}

}  // namespace zlfs
