// The operations of a workload, and the interface of their sources.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kvmix {

// Point queries have two kinds, because a query of an absent key has another cost.
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

// The views point into buffers of the source and are valid until its next operation. Ranges are
// closed: they include `last`. A key `last` need not exist.
struct Operation {
  Kind kind = Kind::kInsert;
  std::string_view key;
  std::string_view last;   // for ranges
  std::string_view value;  // for inserts and updates

  // The bytes that the user writes: U in docs/methods.md.
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

// A sequence of operations, and the database contents that they must produce. The expected contents
// include the operation that Next returned last.
class Source {
 public:
  virtual ~Source() = default;

  // Returns false at the end or on a fault. Problem describes the fault and is empty at the end.
  virtual bool Next(Operation* operation) = 0;
  [[nodiscard]] virtual const std::string& Problem() const = 0;

  // Returns the expected value of a key; nullopt if the key must be absent. For verification only.
  virtual std::optional<std::string_view> Expected(std::string_view key) = 0;
  // Calls `entry` for every expected entry of the closed range, in order, until it returns false.
  using Entry = std::function<bool(std::string_view key, std::string_view value)>;
  virtual void ExpectedRange(std::string_view first, std::string_view last, const Entry& entry) = 0;
};

}  // namespace kvmix
