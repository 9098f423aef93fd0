#include "zlfs/zoned/short_slice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace zlfs {
namespace {

// In nanoseconds; 0 if the kernel does not report it. It is the fourth word of `struct sched_attr`.
std::uint64_t SliceOfThread() {
  std::array<std::uint64_t, 6> attributes = {};
  syscall(SYS_sched_getattr, 0, attributes.data(), sizeof(attributes), 0);
  return attributes[3];
}

class ShortSliceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (SliceOfThread() == 0) GTEST_SKIP() << "this kernel has no slices of threads";
  }
};

TEST_F(ShortSliceTest, LastsAsLongAsTheObject) {
  const std::uint64_t before = SliceOfThread();
  {
    ShortSlice slice;
    EXPECT_EQ(SliceOfThread(), before);
    slice.Begin();
    slice.Begin();
    EXPECT_EQ(SliceOfThread(), 100'000U);
  }
  EXPECT_EQ(SliceOfThread(), before);
}

TEST_F(ShortSliceTest, ChangesNothingElse) {
  std::thread([] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 5), 0);
    {
      ShortSlice slice;
      slice.Begin();
      EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 5);
    }
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 5);
    const sched_param none = {};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    ShortSlice slice;
    slice.Begin();
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
  }).join();
}

}  // namespace
}  // namespace zlfs
