// SPDX-License-Identifier: BSD-3-Clause
#include "os/clock.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

TEST(ClockTest, GoesForwardWithTheSystemsClock) {
  const int64_t start = CoarseMilliseconds();
  const timespec pause = {0, 60'000'000};
  ASSERT_EQ(nanosleep(&pause, nullptr), 0);
  const int64_t passed = CoarseMilliseconds() - start;
  // Coarse: a tick of the kernel may be missing at the start.
  EXPECT_GE(passed, 40);
  int64_t last = CoarseMilliseconds();
  for (int i = 0; i < 100000; ++i) {
    const int64_t now = CoarseMilliseconds();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace tcmalloc
