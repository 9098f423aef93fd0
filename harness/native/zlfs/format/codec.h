// Little-endian integers, varints and the checksum that all on-disk structures use.

#pragma once

#define XXH_INLINE_ALL  // librocksdb exports its own XXH3 under other names
#include <xxhash.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace zlfs {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structures are copied as they are");

inline std::uint64_t Checksum(std::string_view data) {
  return XXH3_64bits(data.data(), data.size());
}

// Seven bits per byte, lowest first. The top bit is set if more bytes follow.
inline void PutVarint(std::string* to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

inline void PutString(std::string* to, std::string_view value) {
  PutVarint(to, value.size());
  to->append(value);
}

// Reads values from the front of a buffer. After a missing or malformed value, ok() is false and
// all further values are zero.
class Decoder {
 public:
  explicit Decoder(std::string_view input) : input_(input) {}

  bool ok() const { return ok_; }
  bool empty() const { return input_.empty(); }

  // A varint that must not exceed `limit`.
  std::uint64_t Varint(std::uint64_t limit = ~std::uint64_t{0}) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; ok_ && !input_.empty() && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(input_.front());
      input_.remove_prefix(1);
      const std::uint64_t bits = byte & 0x7f;
      if (shift == 63 && bits > 1) break;  // more than 64 bits
      value |= bits << shift;
      if ((byte & 0x80) != 0) continue;
      if (value > limit) break;
      return value;
    }
    ok_ = false;
    return 0;
  }

  std::string_view String() {
    const std::uint64_t size = Varint();
    if (!ok_ || size > input_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view value = input_.substr(0, size);
    input_.remove_prefix(size);
    return value;
  }

 private:
  std::string_view input_;
  bool ok_ = true;
};

}  // namespace zlfs
