// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/thread_state.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

TEST(ThreadStatusTest, StateAndTracer) {
  struct Case {
    const char* text;
    bool has_ended;
    bool is_uninterruptible;
    int tracer;
  };
  const Case cases[] = {
      {"Name:\tx\nState:\tR (running)\nTgid:\t7\nTracerPid:\t0\n", false, false, 0},
      {"Name:\tx\nState:\tD (disk sleep)\nTracerPid:\t123\n", false, true, 123},
      {"Name:\tState:\nState:\tZ (zombie)\nTracerPid:\t9\nUid:\t0\n", true, false, 9},
      {"State:\tX (dead)\n", true, false, 0},
      {"State:\nTracerPid:\tx\n", false, false, 0},
      {"State:", false, false, 0},
      {"", false, false, 0},
  };
  for (const Case& c : cases) {
    const ThreadStatus status = ParseThreadStatus(c.text);
    EXPECT_EQ(status.has_ended, c.has_ended) << c.text;
    EXPECT_EQ(status.is_uninterruptible, c.is_uninterruptible) << c.text;
    EXPECT_EQ(status.tracer, c.tracer) << c.text;
  }
}

TEST(ThreadStatusTest, NumberOfThreads) {
  uint64_t threads = 0;
  EXPECT_TRUE(ParseThreadCount("17 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 42 0 99\n",
                               &threads));
  // The count is field 20 of the file (see proc(5)).
  EXPECT_EQ(threads, 42u);
  EXPECT_FALSE(ParseThreadCount("17 (x) S 1 2\n", &threads));
  EXPECT_FALSE(ParseThreadCount("", &threads));
}

}  // namespace
}  // namespace tcmalloc
