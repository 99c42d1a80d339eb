// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/idle_release.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "cache/thread_slot.h"
#include "runtime/runtime_fixture.h"

namespace tcmalloc {
namespace {

constexpr Length kFree = Length(size_t{64} << 7);

class IdleReleaseTest : public testing::Test {
 protected:
  // Leaves memory that is due by now, and nobody gives back.
  void LeaveFreeMemory() {
    heap_.page_heap.SetReleaseRate(0);
    heap_.page_heap.Delete(heap_.page_heap.New(kFree, SpanState::kLarge));
    heap_.page_heap.SetReleaseRate(1000);
    EXPECT_EQ(heap_.page_heap.ReleaseDue(Length(0), false), Length(0));
    usleep(50'000);
  }
  size_t Released() { return heap_.page_heap.GetStats().free_released_bytes; }

  Heap& heap_ = NewHeap();
  ThreadSlot slot_;
  ThreadCache* const cache_ = heap_.registry.Create(slot_);
};

// It may have been at work all the time.
TEST_F(IdleReleaseTest, OneThatComesForTheFirstTimeGivesNothingBack) {
  LeaveFreeMemory();
  const size_t before = Released();
  ComeBy(heap_, cache_);
  EXPECT_EQ(Released(), before);
  EXPECT_TRUE(cache_->VisitIsDue(SizeClass{1}));
  usleep(2 * idle_release_policy::kIdleMs * 1000);
  ComeBy(heap_, cache_);
  EXPECT_GT(Released(), before);
}

// Also where most allocations take the slow path, the next visit comes after so many bytes.
TEST_F(IdleReleaseTest, SlowAllocationsCount) {
  heap_.registry.Register(cache_);
  constexpr SizeClass kClass = SizeClass{1};
  cache_->visits.interval = 1 << 20;
  cache_->SetBytesUntilVisit(kSizeClasses.size(kClass) * 8);
  for (int i = 0; i < 8; ++i) {
    ASSERT_FALSE(cache_->VisitIsDue(kClass)) << i;
    ASSERT_NE(cache_->Allocate(kClass), nullptr);
  }
  EXPECT_TRUE(cache_->VisitIsDue(kClass));
}

}  // namespace
}  // namespace tcmalloc
