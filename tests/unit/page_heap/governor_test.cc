// SPDX-License-Identifier: BSD-3-Clause
// Tests Governor alone: passes figures to it and checks its plans.
#include "page_heap/governor.h"

#include <gtest/gtest.h>

#include "page_heap/hugepage.h"
#include "page_heap/release_policy.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

using Action = GrowthDecision::Action;
using hugepage_policy::Need;

class GovernorTest : public testing::Test {
 protected:
  // A heap with `system_bytes` from the OS. `free_bytes` of them are free, the rest is in use, and
  // all are backed.
  static Governor::Held Heap(size_t system_bytes, size_t free_bytes = 0) {
    return {.system = Length::ForBytes(system_bytes),
            .in_use = Length::ForBytes(system_bytes - free_bytes),
            .free_backed = Length::ForBytes(free_bytes),
            .backed_bytes = system_bytes};
  }
  GrowthPlan Plan(const Governor::Held& held, Length needed, Length room = kAnyRoom) {
    return governor_.PlanGrowth(held, needed, needed, room);
  }

  static constexpr Length kAnyRoom = Length(SIZE_MAX >> kPageShift);
  PageHints hints_;
  Governor governor_{hints_, Length(1), kHugepageThreshold};
};

TEST_F(GovernorTest, GrowthIsProportionalToTheHeapWithinBounds) {
  EXPECT_EQ(Plan(Heap(0), Length(1)).wanted, kMinGrowth);
  EXPECT_EQ(Plan(Heap(80 * kMiB), Length(1)).wanted, MiB(80 / kGrowthPart));
  EXPECT_EQ(Plan(Heap(2000 * kMiB), Length(1)).wanted, kMaxGrowth);
  EXPECT_EQ(Plan(Heap(80 * kMiB), MiB(200)).needed, MiB(200));
  // Growth is not larger than the room of the source of memory.
  EXPECT_EQ(Plan(Heap(2000 * kMiB), Length(1), Length(5)).wanted, Length(5));
}

TEST_F(GovernorTest, AHardLimitBoundsGrowthInAdvance) {
  governor_.SetLimit(LimitKind::kHard, 83 * kMiB);
  const GrowthPlan plan = Plan(Heap(80 * kMiB), Length(1));
  EXPECT_EQ(plan.wanted, MiB(3));
  EXPECT_EQ(plan.room, MiB(3));
  // Growth does not refuse what is needed: memory from mmap is not backed yet.
  EXPECT_EQ(Plan(Heap(80 * kMiB), MiB(5)).room, MiB(5));
  EXPECT_EQ(Plan(Heap(100 * kMiB), Length(7)).room, Length(7));
}

TEST_F(GovernorTest, HugepagesFromTheThresholdOn) {
  const size_t threshold = kHugepageThreshold.bytes();
  EXPECT_FALSE(Plan(Heap(threshold), Length(1)).hugepages);
  governor_.SetHugepages({HugepageMode::kAdvise});
  EXPECT_FALSE(Plan(Heap(threshold - kMiB), Length(1)).hugepages);
  EXPECT_TRUE(Plan(Heap(threshold), Length(1)).hugepages);
  EXPECT_TRUE(Plan(Heap(threshold, kMiB), Length(1)).hugepages) << "free memory counts, too";
  EXPECT_TRUE(Plan(Heap(threshold / 2), kHugeObject).hugepages);
}

TEST_F(GovernorTest, TheProgramsLimitReplacesAContainersLimit) {
  governor_.SetLimit(LimitKind::kSoft, 100, LimitOrigin::kContainer);
  EXPECT_EQ(governor_.limits().soft_bytes, 100u);
  governor_.SetLimit(LimitKind::kSoft, 50);
  governor_.SetLimit(LimitKind::kSoft, 100, LimitOrigin::kContainer);
  EXPECT_EQ(governor_.limits().soft_bytes, 50u);
  governor_.SetLimit(LimitKind::kHard, 200, LimitOrigin::kContainer);
  EXPECT_EQ(governor_.limits().hard_bytes, 200u);
}

// At the hard limit there must be room for the whole request: a release may take pages of the place
// that was found.
TEST_F(GovernorTest, AtTheHardLimitTheWholeRequestCounts) {
  const Governor::Held held = Heap(100 * kMiB, 50 * kMiB);
  EXPECT_EQ(governor_.DecideGrowth(held, MiB(1), MiB(9), false).action, Action::kGrow);
  governor_.SetLimit(LimitKind::kHard, 100 * kMiB);
  EXPECT_EQ(governor_.DecideGrowth(held, Length(0), MiB(9), false).action, Action::kGrow);
  const GrowthDecision decision = governor_.DecideGrowth(held, MiB(1), MiB(9), false);
  EXPECT_EQ(decision.action, Action::kReleaseOrFail);
  EXPECT_GE(decision.release_bytes, 9 * kMiB);
  EXPECT_EQ(governor_.DecideGrowth(held, MiB(101), MiB(101), false).action, Action::kFail);
}

TEST_F(GovernorTest, AboveTheSoftLimitAFreeReleasesOneSlice) {
  governor_.SetLimit(LimitKind::kSoft, 64 * kMiB);
  EXPECT_TRUE(hints_.near_soft_limit.value());
  EXPECT_EQ(governor_.DecideSoftRelease(Heap(60 * kMiB, 30 * kMiB)).length, Length(0));
  EXPECT_FALSE(hints_.near_soft_limit.value());
  const Governor::Held above = Heap(80 * kMiB, 30 * kMiB);
  governor_.NoteGrown(above);
  EXPECT_TRUE(hints_.above_soft_limit.value());
  const ReleasePlan plan = governor_.DecideSoftRelease(above);
  EXPECT_EQ(plan.length, kReleaseSlice);
  EXPECT_EQ(plan.max_slices, 1u);
  // A small amount of memory is not worth a system call.
  EXPECT_EQ(governor_.DecideSoftRelease(Heap(80 * kMiB, kMiB / 8)).length, Length(0));
  EXPECT_TRUE(hints_.above_soft_limit.value());
  // Memory that the OS refuses to release is not tried again before the heap grows.
  governor_.NoteSoftRelease(above, Length(0));
  EXPECT_FALSE(hints_.above_soft_limit.value());
  EXPECT_EQ(governor_.DecideSoftRelease(above).length, Length(0));
  governor_.NoteGrown(above);
  EXPECT_EQ(governor_.DecideSoftRelease(above).length, kReleaseSlice);
  governor_.NoteSoftRelease(above, MiB(8));
  EXPECT_EQ(governor_.limit_watch().counts(LimitKind::kSoft).released_bytes, 8 * kMiB);
}

TEST_F(GovernorTest, NothingIsPrefaultedUnderALimit) {
  const Length n(2);
  EXPECT_FALSE(governor_.Prefaults(Need::kWhole, n));
  governor_.SetHugepages({HugepageMode::kAdvise});
  EXPECT_TRUE(governor_.Prefaults(Need::kWhole, n));
  EXPECT_FALSE(governor_.Prefaults(Need::kWhole, n - Length(1)));
  EXPECT_FALSE(governor_.Prefaults(Need::kUnknown, n));
  governor_.SetLimit(LimitKind::kSoft, 500 * kMiB);
  EXPECT_FALSE(governor_.Prefaults(Need::kWhole, n));
}

}  // namespace
}  // namespace tcmalloc
