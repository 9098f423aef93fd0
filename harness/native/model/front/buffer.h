// The write buffer. A write completes when its data is in the buffer; programs empty it. Writes
// that do not fit wait in the order of their arrival.

#pragma once

#include <cstdint>
#include <deque>

#include "model/units.h"

namespace zonemodel {

class Buffer {
 public:
  struct Waiter {
    std::uint32_t tag;
    Time ready;  // earliest time of its completion
    Bytes bytes;
  };

  explicit Buffer(Bytes size) : size_(size) {}

  // Takes the write and returns true if it fits and no other write waits. Otherwise the write
  // waits.
  bool Enter(const Waiter& write) {
    if (!waiters_.empty() || !Fits(write.bytes)) {
      waiters_.push_back(write);
      return false;
    }
    used_ += write.bytes;
    return true;
  }
  // Adds data even without space, for example for garbage collection.
  void Force(Bytes bytes) { used_ += bytes; }
  void Release(Bytes bytes) { used_ -= bytes; }

  // Takes the first waiting write out of the queue if it fits now. With `force` it need not fit.
  bool Admit(Waiter* write, bool force) {
    if (waiters_.empty() || (!force && !Fits(waiters_.front().bytes))) return false;
    *write = waiters_.front();
    waiters_.pop_front();
    used_ += write->bytes;
    return true;
  }

  [[nodiscard]] bool has_waiters() const { return !waiters_.empty(); }
  // Returns the bytes that must leave before the first waiting write fits.
  [[nodiscard]] Bytes Lacks() const {
    if (waiters_.empty() || Fits(waiters_.front().bytes)) return 0;
    return used_ + waiters_.front().bytes - size_;
  }

 private:
  [[nodiscard]] bool Fits(Bytes bytes) const { return used_ + bytes <= size_; }

  const Bytes size_;
  Bytes used_ = 0;
  std::deque<Waiter> waiters_;
};

}  // namespace zonemodel
