// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kRetentionSeed = 4242;

int64_t clock_ms = 0;

TEST(RetentionTest, TheTotalIsAPartOfTheMemoryInUseWithinBounds) {
  constexpr size_t kFloor = kRetentionFloorBytes;
  EXPECT_EQ(ShareRetention({.in_use_bytes = 0}).total, kFloor);
  EXPECT_EQ(ShareRetention({.in_use_bytes = kFloor}).total, kFloor);
  EXPECT_EQ(ShareRetention({.in_use_bytes = 3 * kFloor * kRetentionPart}).total, 3 * kFloor);
  for (const size_t set : {size_t{1}, 2_MiB, 300_MiB}) {
    EXPECT_EQ(ShareRetention({.in_use_bytes = 1_GiB, .set_bytes = set}).total, set);
  }
  EXPECT_EQ(ShareRetention({.limit_bytes = kFloor}).total, kFloor / kRetentionLimitPart);
  EXPECT_EQ(ShareRetention({.set_bytes = 1_MiB, .limit_bytes = 1_GiB}).total, 1_MiB);
  for (int level = 0; level <= 3; ++level) {
    EXPECT_EQ(ShareRetention({.pressure_level = level}).total, kFloor >> level);
  }
}

TEST(RetentionTest, ManyThreadsThatHoldMuchRaiseTheirShare) {
  constexpr size_t kFew = kRetentionFloorBytes / kThreadCachesPart / kPerThreadCacheBytes;
  constexpr size_t kMuch = 512_MiB;
  const RetentionShares one = ShareRetention({.in_use_bytes = kMuch, .thread_caches = 1});
  const size_t few = one.thread_caches / kPerThreadCacheBytes;
  ASSERT_GE(few, kFew);
  EXPECT_EQ(ShareRetention({.in_use_bytes = kMuch, .thread_caches = few}).total, one.total);
  const RetentionShares many = ShareRetention({.in_use_bytes = kMuch, .thread_caches = 3 * few});
  EXPECT_EQ(many.thread_caches, 3 * few * kPerThreadCacheBytes);
  EXPECT_EQ(many.total, one.total - one.thread_caches + many.thread_caches);
  EXPECT_EQ(many.kept_spans, one.kept_spans) << "the other shares stay";
  EXPECT_EQ(many.free_pages, one.free_pages);
  EXPECT_EQ(many.inherited_caches, one.inherited_caches);
  // The share of thread caches is at most a part of the memory in use.
  EXPECT_EQ(ShareRetention({.in_use_bytes = kMuch, .thread_caches = 1'000'000}).thread_caches,
            kMuch / kThreadCachesInUsePart);
  EXPECT_EQ(ShareRetention({.in_use_bytes = 1_MiB, .thread_caches = 1'000'000}).total,
            kRetentionFloorBytes);
}

TEST(RetentionTest, ManyThreadsDoNotRaiseATotalThatWasSetOrIsLimited) {
  const RetentionInputs many = {.in_use_bytes = 2_GiB, .thread_caches = 10'000};
  RetentionInputs inputs = many;
  inputs.set_bytes = 100_MiB;
  EXPECT_EQ(ShareRetention(inputs).total, 100_MiB);
  EXPECT_EQ(ShareRetention(inputs).thread_caches, 100_MiB / kThreadCachesPart);
  inputs = many;
  inputs.limit_bytes = 300_MiB * kRetentionLimitPart;
  EXPECT_EQ(ShareRetention(inputs).total, 300_MiB);
  inputs = many;
  inputs.pressure_level = 2;
  EXPECT_EQ(ShareRetention(inputs).total, ShareRetention(many).total / 4);
}

TEST(RetentionTest, SharesAddUpToTheTotal) {
  SeededRandom random(kRetentionSeed);
  for (int i = 0; i < 10'000; ++i) {
    const size_t in_use = random.Below(size_t{1} << (random.Below(31) + 1));
    const RetentionShares shares =
        ShareRetention({.in_use_bytes = in_use,
                        .thread_caches = random.Below(size_t{1} << (random.Below(15) + 1)),
                        .set_bytes = random.OneIn(2) ? random.Below(1_GiB) : 0,
                        .limit_bytes = random.OneIn(2) ? random.Below(1_GiB) : SIZE_MAX,
                        .pressure_level = static_cast<int>(random.Below(4))});
    ASSERT_EQ(
        shares.thread_caches + shares.inherited_caches + shares.kept_spans + shares.free_pages,
        shares.total);
    ASSERT_LE(shares.thread_caches,
              std::max(shares.total / kThreadCachesPart, in_use / kThreadCachesInUsePart));
  }
}

TEST(RetentionTest, PressureIsForgottenAfterATime) {
  Retention retention;
  clock_ms = 1000;
  EXPECT_EQ(retention.Shares(0, 0, clock_ms).total, kRetentionFloorBytes);
  retention.NotePressure(2, clock_ms);
  EXPECT_EQ(retention.Shares(0, 0, clock_ms).total, kRetentionFloorBytes / 4);
  clock_ms += kPressureHoldMs - 1;
  EXPECT_EQ(retention.Shares(0, 0, clock_ms).total, kRetentionFloorBytes / 4);
  clock_ms += 1;
  EXPECT_EQ(retention.Shares(0, 0, clock_ms).total, kRetentionFloorBytes);
}

}  // namespace
}  // namespace tcmalloc
