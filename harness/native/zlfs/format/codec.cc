#include "zlfs/format/codec.h"

#define XXH_INLINE_ALL  // librocksdb exports an XXH3 of its own under other names
#include <xxhash.h>

namespace zlfs {

std::uint64_t Checksum(const char* data, std::size_t size) { return XXH3_64bits(data, size); }

std::uint64_t Checksum(std::string_view first, std::string_view second) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, first.data(), first.size());
  XXH3_64bits_update(&state, second.data(), second.size());
  return XXH3_64bits_digest(&state);
}

}  // namespace zlfs
