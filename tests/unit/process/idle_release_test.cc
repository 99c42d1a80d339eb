// SPDX-License-Identifier: BSD-3-Clause
// Tests the passes of idle release, one at a time.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "os/clock.h"
#include "page_heap/release_policy.h"
#include "process/new_heap.h"
#include "process/release.h"
#include "testing/kept_spans.h"
#include "thread_cache/cache_fixture.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

constexpr Length kMuch = Length((size_t{64} << 20) >> kPageShift);
constexpr int kPassMs = kIdlePassMs;

Length FreeMapped(Heap& heap) {
  return Length(heap.page_heap.GetStats().free_backed_bytes >> kPageShift);
}

// A heap with free memory, whose peak demand is forgotten within some milliseconds at the rate.
Heap& HeapWithFreeMemory(double rate) {
  Heap& heap = NewHeap();
  heap.page_heap.governor()->SetReleaseRate(0);
  heap.page_heap.Delete(heap.page_heap.New(kMuch, SpanState::kLarge));
  heap.page_heap.governor()->SetReleaseRate(rate);
  return heap;
}

// The first pass finds that pages were freed, the next ones find that no more were freed.
TEST(IdleReleaseTest, SleepsAfterManyIdlePasses) {
  Heap& heap = NewHeap();
  IdleRelease passes;
  for (uint32_t frees : {1, 2, 7, 7000}) {
    ASSERT_EQ(passes.RunPass(heap, frees), kPassMs);
    for (int pass = 1; pass < kSleepAfterPasses; ++pass) {
      ASSERT_EQ(passes.RunPass(heap, frees), kPassMs) << pass;
    }
    ASSERT_EQ(passes.RunPass(heap, frees), IdleRelease::kUntilFrees);
    ASSERT_EQ(passes.RunPass(heap, frees), IdleRelease::kUntilFrees) << "woken for nothing";
  }
  // The free pages are too few to release.
  heap.page_heap.Delete(
      heap.page_heap.New(Length::ForBytes(heap.page_heap.Shares().free_pages), SpanState::kLarge));
  passes.RunPass(heap, 0);
  EXPECT_EQ(heap.page_heap.GetStats().releases, 0u);
}

TEST(IdleReleaseTest, RateZeroReleasesNothing) {
  Heap& heap = HeapWithFreeMemory(0);
  IdleRelease passes;
  for (int pass = 0; pass < 100; ++pass) passes.RunPass(heap, 1);
  EXPECT_EQ(FreeMapped(heap), kMuch);
}

TEST(IdleReleaseTest, WhatIsDueIsReleased) {
  Heap& heap = HeapWithFreeMemory(40);
  Span* const in_use = heap.page_heap.New(Length(1000), SpanState::kLarge);
  // Kept spans of shards are also released, once no more pages are freed.
  SpanHome& home = heap.central.shards().Ensure(0).home();
  DeleteToCache(heap.page_heap, heap.page_heap.New(Length(8), SpanState::kSmall), home, true);
  const Length all = FreeMapped(heap);
  IdleRelease passes;
  passes.RunPass(heap, 1);
  Span* const kept = NewFromCache(heap.page_heap, Length(8), home);
  ASSERT_NE(kept, nullptr);
  DeleteToCache(heap.page_heap, kept, home, true);
  for (int64_t start_ms = CoarseMilliseconds();
       heap.page_heap.release_pending() && CoarseMilliseconds() < start_ms + 60'000;) {
    passes.RunPass(heap, 1);
    WaitMillisecond();
  }
  // One pass releases it, once the peak is forgotten.
  EXPECT_LE(FreeMapped(heap), Length::ForBytes(heap.page_heap.Shares().free_pages));
  EXPECT_GE(heap.page_heap.GetStats().releases, all.pages() / kReleaseSlice.pages());
  EXPECT_EQ(NewFromCache(heap.page_heap, Length(8), home), nullptr);
  EXPECT_EQ(heap.page_heap.GetStats().large_span_bytes, in_use->bytes());
  heap.CheckInvariants();
}

// The caches of threads of a heap that has nothing to release.
class IdleReleaseCachesTest : public testing::Test {
 protected:
  IdleReleaseCachesTest() {
    EnsureHeap();  // its barrier is used
    heap_.page_heap.governor()->SetReleaseRate(1);
  }
  void SetUp() override {
    if (!ExistingHeap().membarrier.Issue()) GTEST_SKIP() << "no membarrier";
    ASSERT_FALSE(heap_.page_heap.release_pending());
  }

  static void Use(TestThread& thread) {
    constexpr SizeClass c = kSizeClasses.ClassOf(64);
    void* objects[100];
    for (void*& object : objects) object = thread.Allocate(c);
    for (void* const object : objects) thread.Free(c, object);
  }
  static size_t CachedBytes(TestThread& thread) { return thread.cache()->table().CachedBytes(); }
  // From now on the thread's cache counts as idle if it has not changed since the last pass.
  static void PretendTimePassed(TestThread& thread) {
    thread.cache()->record.stamped_at_ms -= 1000 * kIdleCacheMs;
  }

  Heap& heap_ = NewHeap();
  IdleRelease passes_;
};

// Idle passes flush the caches of threads that sleep, and no others.
TEST_F(IdleReleaseCachesTest, FlushesTheCachesOfIdleThreads) {
  TestThread sleeper(heap_.registry);
  TestThread busy(heap_.registry);
  Use(sleeper);
  Use(busy);
  passes_.RunPass(heap_, 1);
  passes_.RunPass(heap_, 1);
  EXPECT_GT(CachedBytes(sleeper), 0u) << "not known to be idle";
  Use(busy);
  PretendTimePassed(sleeper);
  PretendTimePassed(busy);
  passes_.RunPass(heap_, 1);
  EXPECT_EQ(CachedBytes(sleeper), 0u);
  EXPECT_GT(CachedBytes(busy), 0u);
  heap_.registry.CheckInvariants();
}

// A thread uses its cache between passes, long after pages were last freed. When the thread becomes
// idle its cache is flushed.
TEST_F(IdleReleaseCachesTest, FlushesCachesThatBecomeIdleLater) {
  TestThread thread(heap_.registry);
  for (int pass = 0; pass <= 2 * kSleepAfterPasses; ++pass) {
    Use(thread);
    PretendTimePassed(thread);
    ASSERT_NE(passes_.RunPass(heap_, 1), IdleRelease::kUntilFrees) << pass;
    ASSERT_GT(CachedBytes(thread), 0u) << pass;
  }
  PretendTimePassed(thread);
  EXPECT_EQ(passes_.RunPass(heap_, 1), IdleRelease::kUntilFrees);
  EXPECT_EQ(CachedBytes(thread), 0u);
  heap_.registry.CheckInvariants();
}

// A thread that uses its cache for ever causes rare passes only, until pages are freed.
TEST_F(IdleReleaseCachesTest, PassesForCachesInUseBecomeRare) {
  TestThread thread(heap_.registry);
  const auto run_pass = [&](uint32_t frees) {
    Use(thread);
    return passes_.RunPass(heap_, frees);
  };
  for (uint32_t frees : {1, 2}) {
    for (int pass = 0; pass < kSleepAfterPasses; ++pass) {
      ASSERT_EQ(run_pass(frees), kPassMs) << pass;
    }
    for (int pause_ms = 2 * kPassMs; pause_ms < kLongestIdlePauseMs; pause_ms *= 2) {
      ASSERT_EQ(run_pass(frees), pause_ms);
    }
    ASSERT_EQ(run_pass(frees), kLongestIdlePauseMs);
    ASSERT_EQ(run_pass(frees), kLongestIdlePauseMs);
  }
}

}  // namespace
}  // namespace tcmalloc
