// The bytes of a device: in memory, or in a sparse file that has no name.

#pragma once

#include <string>

#include "model/units.h"

namespace zoneblk {

using zonemodel::Bytes;

class Contents {
 public:
  // An empty `folder` means memory. At most `used` of the bytes ever hold data. Throws BadInput.
  Contents(const std::string& folder, Bytes size, Bytes used);
  ~Contents();
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  // Returns the bytes from `offset`. Bytes that were never written are zero.
  [[nodiscard]] char* At(Bytes offset) const { return begin_ + offset; }
  // Sets bytes to zero and frees their space. Returns false if it fails.
  [[nodiscard]] bool Discard(Bytes offset, Bytes bytes) const;

 private:
  const Bytes size_;
  int file_ = -1;
  char* begin_;
};

}  // namespace zoneblk
