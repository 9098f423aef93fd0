// A short time slice of the CPU scheduler for a thread that waits until a time. Since Linux 6.12, a
// thread that wakes interrupts one with a longer slice at once. Without it, the thread gets a busy
// processor milliseconds later. Older kernels ignore it.

#pragma once

#include <cstdint>

namespace zlfs {

// Thread safety: belongs to the thread that made it.
class ShortSlice {
 public:
  ShortSlice() = default;
  // Gives the thread the slice that it had before.
  ~ShortSlice();
  ShortSlice(const ShortSlice&) = delete;
  ShortSlice& operator=(const ShortSlice&) = delete;

  // Makes the slice of the calling thread short until this object's end. It has no effect on
  // real-time and idle threads.
  void Begin();

 private:
  std::uint64_t before_ = 0;  // nanoseconds; 0: unchanged
};

}  // namespace zlfs
