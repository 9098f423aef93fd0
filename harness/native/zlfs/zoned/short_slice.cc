#include "zlfs/zoned/short_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

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

bool Get(Attributes* attributes) {
  return syscall(SYS_sched_getattr, 0, attributes, sizeof(Attributes), 0) == 0 &&
         attributes->policy == SCHED_OTHER;
}

// Nice and policy stay as they are.
void SetSlice(std::uint64_t nanoseconds) {
  Attributes attributes;
  if (!Get(&attributes)) return;
  attributes.runtime = nanoseconds;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

std::uint64_t SliceOfThread() {
  Attributes attributes;
  return Get(&attributes) ? attributes.runtime : 0;
}

void ShortSlice::Begin() {
  if (before_ != 0) return;
  before_ = SliceOfThread();
  if (before_ != 0) SetSlice(kShortest);
}

ShortSlice::~ShortSlice() {
  if (before_ != 0) SetSlice(before_);
}

}  // namespace zlfs
