// Buffers aligned for O_DIRECT.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace zlfs {

// The largest supported block size.
inline constexpr std::size_t kBufferAlignment = 4096;

constexpr std::size_t RoundUp(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

inline bool Aligned(const void* address, std::size_t unit) {
  return reinterpret_cast<std::uintptr_t>(address) % unit == 0;
}

struct FreeDeleter {
  void operator()(char* memory) const { std::free(memory); }
};
using AlignedBuffer = std::unique_ptr<char[], FreeDeleter>;

// At least `size` bytes, uninitialised.
inline AlignedBuffer AllocateAligned(std::size_t size) {
  void* memory = std::aligned_alloc(kBufferAlignment, RoundUp(size, kBufferAlignment));
  if (memory == nullptr) throw std::bad_alloc();
  return AlignedBuffer(static_cast<char*>(memory));
}

}  // namespace zlfs
