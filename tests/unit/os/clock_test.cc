// SPDX-License-Identifier: BSD-3-Clause
#include "os/clock.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

int64_t Nanoseconds(clockid_t clock) {
  timespec now;
  EXPECT_EQ(clock_gettime(clock, &now), 0);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

TEST(ClockTest, IsTheSystemsCoarseClock) {
  for (int i = 0; i < 1000; ++i) {
    const int64_t before = Nanoseconds(CLOCK_MONOTONIC_COARSE) / 1'000'000;
    const int64_t now = CoarseMilliseconds();
    const int64_t after = Nanoseconds(CLOCK_MONOTONIC_COARSE) / 1'000'000;
    ASSERT_GE(now, before);
    ASSERT_LE(now, after);
  }
}

TEST(ClockTest, AWaitTakesTimeAndKeepsErrno) {
  const int64_t start = Nanoseconds(CLOCK_MONOTONIC);
  errno = 77;
  for (int i = 0; i < 5; ++i) WaitMillisecond();
  EXPECT_EQ(errno, 77);
  EXPECT_GE(Nanoseconds(CLOCK_MONOTONIC) - start, 5'000'000);
}

}  // namespace
}  // namespace tcmalloc
