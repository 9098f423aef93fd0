#include "zlfs/zoned/short_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace zlfs {
namespace {

constexpr std::uint64_t kShortest = 100'000;  // nanoseconds, the least that the kernel allows

// `struct sched_attr` of linux/sched/types.h. glibc has it and the calls since 2.41.
struct Attributes {
  std::uint32_t size = sizeof(Attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;  // the slice
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

// Sets the slice of the calling thread and returns the one before, in nanoseconds; 0 if the thread
// or the kernel has none. Nice and policy stay as they are.
std::uint64_t ExchangeSlice(std::uint64_t nanoseconds) {
  Attributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return 0;
  if (attributes.policy != SCHED_OTHER || attributes.runtime == 0) return 0;
  const std::uint64_t before = std::exchange(attributes.runtime, nanoseconds);
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0 ? before : 0;
}

}  // namespace

void ShortSlice::Begin() {
  if (before_ == 0) before_ = ExchangeSlice(kShortest);
}

ShortSlice::~ShortSlice() {
  if (before_ != 0) ExchangeSlice(before_);
}

}  // namespace zlfs
