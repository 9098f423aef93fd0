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

  // The bytes from `offset`; those that nobody wrote are zeros.
  [[nodiscard]] char* At(Bytes offset) const { return begin_ + offset; }
  // Makes bytes zero, and frees their room. Returns whether that worked.
  [[nodiscard]] bool Discard(Bytes offset, Bytes bytes) const;

 private:
  const Bytes size_;
  int file_ = -1;
  char* begin_;
};

}  // namespace zoneblk
