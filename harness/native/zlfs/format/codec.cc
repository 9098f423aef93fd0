#include "zlfs/format/codec.h"

#define XXH_INLINE_ALL  // librocksdb exports an XXH3 of its own under other names
#include <xxhash.h>

namespace zlfs {

std::uint64_t Checksum(std::string_view data) { return XXH3_64bits(data.data(), data.size()); }

}  // namespace zlfs
