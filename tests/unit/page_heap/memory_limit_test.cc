// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/memory_limit.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "testing/random.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

// A type for sums of two sizes.
#ifdef __SIZEOF_INT128__
using Wide = unsigned __int128;
#else
using Wide = uint64_t;
#endif

using Action = GrowthDecision::Action;

TEST(MemoryLimitTest, ReleasesTheExcessAndSomeSlack) {
  const MemoryLimits hard{.hard_bytes = 100 * kMiB};
  EXPECT_EQ(DecideGrowth(hard, 98 * kMiB, 5 * kMiB, false).release_bytes,
            3 * kMiB + LimitSlack(100 * kMiB));
  // The release includes the excess that existed before: otherwise the request could not be served.
  EXPECT_EQ(DecideGrowth(hard, 300 * kMiB, 5 * kMiB, false).release_bytes,
            205 * kMiB + LimitSlack(100 * kMiB));
  const MemoryLimits soft{.soft_bytes = 100 * kMiB};
  EXPECT_EQ(DecideGrowth(soft, 98 * kMiB, 5 * kMiB, false).release_bytes,
            3 * kMiB + LimitSlack(100 * kMiB));
  // A request for 5 MiB does not release 200.
  EXPECT_EQ(DecideGrowth(soft, 300 * kMiB, 5 * kMiB, false).release_bytes,
            5 * kMiB + LimitSlack(100 * kMiB));
}

TEST(MemoryLimitTest, SlackIsASmallPartOfTheLimit) {
  EXPECT_EQ(LimitSlack(64 * kMiB), kMiB);
  EXPECT_EQ(LimitSlack(512 * kMiB), kReleaseSlice.bytes());
  EXPECT_EQ(LimitSlack(SIZE_MAX / 2), kReleaseSlice.bytes());
  EXPECT_EQ(LimitSlack(0), 0u);
}

TEST(MemoryLimitTest, FreedMemoryIsReleasedAboveTheSoftLimit) {
  const MemoryLimits soft{.soft_bytes = 64 * kMiB};
  EXPECT_FALSE(ReleasesFreedMemory(soft, 64 * kMiB, 10 * kMiB));
  EXPECT_TRUE(ReleasesFreedMemory(soft, 64 * kMiB + 1, kMiB));
  // Releasing one page at a time would need a system call for each.
  EXPECT_FALSE(ReleasesFreedMemory(soft, 64 * kMiB + 1, kMiB - 1));
}

// For random figures, nothing overflows, and each decision agrees with the definition of the
// limits.
TEST(MemoryLimitTest, AnyFigures) {
  SeededRandom random(1701);
  const auto figure = [&random] {
    const size_t edge = random.OneIn(4) ? SIZE_MAX - random.Below(3) : random.Below(3);
    return random.OneIn(3)
               ? edge
               : static_cast<size_t>(random.Below(SIZE_MAX)) >> random.Below(8 * sizeof(size_t));
  };
  for (int i = 0; i < 200'000; ++i) {
    const MemoryLimits limits{.hard_bytes = figure(), .soft_bytes = figure()};
    const size_t backed = figure();
    const size_t request = figure();
    const bool served = random.OneIn(2);
    const GrowthDecision decision = DecideGrowth(limits, backed, request, served);
    // The sum is exact if the compiler has a type of 128 bits.
    const auto after = static_cast<Wide>(backed) + request;
    const bool above_hard = limits.hard_bytes != kNoLimit && after > limits.hard_bytes;
    const bool above_soft = limits.soft_bytes != kNoLimit && after > limits.soft_bytes;
    ASSERT_EQ(decision.action == Action::kReleaseOrFail || decision.action == Action::kFail,
              above_hard);
    ASSERT_EQ(decision.action == Action::kFail,
              limits.hard_bytes != kNoLimit && request > limits.hard_bytes);
    ASSERT_EQ(decision.action == Action::kReleaseThenGrow, !above_hard && above_soft && !served);
    if (decision.action == Action::kReleaseOrFail && decision.release_bytes < SIZE_MAX) {
      ASSERT_GE(decision.release_bytes, static_cast<size_t>(after - limits.hard_bytes));
    }
    if (decision.action == Action::kReleaseThenGrow && decision.release_bytes < SIZE_MAX) {
      const auto most = static_cast<Wide>(request) + LimitSlack(limits.soft_bytes);
      ASSERT_LE(decision.release_bytes, most);
    }
  }
}

struct Heard {
  int calls = 0;
  int kind = -1;
  size_t backed = 0;
  size_t limit = 0;
};

void Hear(int kind, size_t backed, size_t limit, void* context) {
  Heard& heard = *static_cast<Heard*>(context);
  heard = {heard.calls + 1, kind, backed, limit};
}

TEST(LimitWatchTest, NotifiesOnceThatTheHeapIsAboveTheLimit) {
  Relaxed<bool> due{false};
  LimitWatch watch(due);
  Heard heard;
  watch.SetCallback(&Hear, &heard);
  LimitEvent event;
  watch.Grown(64 * kMiB, 64 * kMiB);
  EXPECT_FALSE(due.value());
  watch.Grown(65 * kMiB, 64 * kMiB);
  EXPECT_TRUE(due.value());
  watch.Grown(66 * kMiB, 64 * kMiB);
  ASSERT_TRUE(watch.Take(&event));
  event.Notify();
  EXPECT_EQ(heard.kind, 1);
  EXPECT_EQ(heard.backed, 65 * kMiB);
  EXPECT_EQ(heard.limit, 64 * kMiB);
  EXPECT_FALSE(watch.Take(&event));
  // Memory in use that falls slightly below the limit and rises above it again causes no report. If
  // it falls far below it, the next excess is reported.
  watch.InUse(64 * kMiB - 1, 64 * kMiB);
  watch.Grown(67 * kMiB, 64 * kMiB);
  EXPECT_FALSE(due.value());
  EXPECT_TRUE(watch.notified());
  watch.InUse(64 * kMiB - LimitSlack(64 * kMiB), 64 * kMiB);
  EXPECT_FALSE(watch.notified());
  watch.Grown(67 * kMiB, 64 * kMiB);
  EXPECT_TRUE(due.value());
  // A changed limit is exceeded anew.
  watch.Reset();
  EXPECT_FALSE(due.value());
  watch.Grown(65 * kMiB, 32 * kMiB);
  ASSERT_TRUE(watch.Take(&event));
  EXPECT_EQ(event.limit_bytes, 32 * kMiB);
}

}  // namespace

}  // namespace tcmalloc
