// SPDX-License-Identifier: BSD-3-Clause
#include "base/counters.h"

#include <gtest/gtest.h>

#include "testing/run_threads.h"

namespace tcmalloc {
namespace {

// All threads run for longer than a time slice, so that additions overlap.
TEST(SharedCounterTest, LosesNoUpdateOfManyWriters) {
  constexpr size_t kThreads = 4;
  constexpr size_t kRounds = 500'000;
  SharedCounter counter;
  RunThreads(kThreads, [&](size_t) {
    for (size_t i = 0; i < kRounds; ++i) {
      counter.Add(3);
      counter.Subtract(2);
    }
  });
  EXPECT_EQ(counter.value(), kThreads * kRounds);
}

}  // namespace
}  // namespace tcmalloc
