// What a workload consists of.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kvmix {

// Point queries are two kinds: one of an absent key costs something else, and is counted apart.
enum class Kind : std::uint8_t {
  kInsert,
  kUpdate,
  kDelete,
  kRangeDelete,
  kQuery,
  kAbsentQuery,
  kScan,
};
inline constexpr std::size_t kKinds = 7;
inline constexpr std::array<std::string_view, kKinds> kKindNames = {
    "insert", "update", "delete", "range_delete", "query", "absent_query", "scan"};

constexpr std::size_t Index(Kind kind) { return static_cast<std::size_t>(kind); }

// Views into buffers of the source, valid until its next operation. Ranges are closed: `last` is
// part of them, whether there is such a key or not.
struct Operation {
  Kind kind = Kind::kInsert;
  std::string_view key;
  std::string_view last;   // of ranges
  std::string_view value;  // of inserts and updates

  // What the user hands over to be written: U of docs/methods.md.
  [[nodiscard]] std::uint64_t UserBytes() const {
    switch (kind) {
      case Kind::kInsert:
      case Kind::kUpdate:
        return key.size() + value.size();
      case Kind::kDelete:
        return key.size();
      case Kind::kRangeDelete:
        return key.size() + last.size();
      default:
        return 0;
    }
  }
};

// A sequence of operations, and what the database must hold once they are applied in this order.
// The expectations are those behind the operation that was given last.
class Source {
 public:
  virtual ~Source() = default;

  // False at the end, and when there cannot be another operation: then Problem says why.
  virtual bool Next(Operation* operation) = 0;
  [[nodiscard]] virtual const std::string& Problem() const = 0;

  // The value that the key must have; nothing: it must be absent. For verification only.
  virtual std::optional<std::string_view> Expected(std::string_view key) = 0;
  // Every entry that must be between the two keys, in order; stops when `entry` returns false.
  using Entry = std::function<bool(std::string_view key, std::string_view value)>;
  virtual void ExpectedRange(std::string_view first, std::string_view last, const Entry& entry) = 0;
};

}  // namespace kvmix
