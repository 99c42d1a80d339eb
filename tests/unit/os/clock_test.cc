// SPDX-License-Identifier: BSD-3-Clause
#include "os/clock.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

TEST(ClockTest, AdvancesWithTheSystemClock) {
  const int64_t start = CoarseMilliseconds();
  const timespec pause = {0, 60'000'000};
  ASSERT_EQ(nanosleep(&pause, nullptr), 0);
  const int64_t passed = CoarseMilliseconds() - start;
  // The clock is coarse: a tick of the kernel may be missing at the start.
  EXPECT_GE(passed, 40);
  int64_t last = CoarseMilliseconds();
  for (int i = 0; i < 100000; ++i) {
    const int64_t now = CoarseMilliseconds();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ClockTest, AWaitTakesTimeAndKeepsErrno) {
  const auto nanoseconds = [] {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  };
  const int64_t start = nanoseconds();
  errno = 77;
  for (int i = 0; i < 5; ++i) WaitMillisecond();
  EXPECT_EQ(errno, 77);
  EXPECT_GE(nanoseconds() - start, 5'000'000);
}

}  // namespace
}  // namespace tcmalloc
