// SPDX-License-Identifier: BSD-3-Clause
// What a thread does for a heap that nobody calls, a turn at a time.
#include "runtime/background_thread.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/tuning.h"
#include "os/clock.h"
#include "runtime/runtime_fixture.h"

namespace tcmalloc {
namespace {

constexpr Length kMuch = Length((size_t{64} << 20) >> kPageShift);

Length FreeMapped(Heap& heap) {
  return Length(heap.page_heap.GetStats().free_mapped_bytes >> kPageShift);
}

// A heap with free memory, and, at the rate, nothing to remember for longer than some milliseconds.
Heap& HeapWithFreeMemory(double rate) {
  Heap& heap = NewHeap();
  heap.page_heap.governor()->SetReleaseRate(0);
  heap.page_heap.Delete(heap.page_heap.New(kMuch, SpanState::kLarge));
  heap.page_heap.governor()->SetReleaseRate(rate);
  return heap;
}

TEST(BackgroundThreadTest, NothingToDo) {
  Heap& heap = NewHeap();
  EXPECT_EQ(DoBackgroundActions(heap), kTuning.idle_release.background_idle_ms);
  // Too little to think of.
  heap.page_heap.Delete(
      heap.page_heap.New(Length::ForBytes(heap.page_heap.Shares().free_pages), SpanState::kLarge));
  EXPECT_EQ(DoBackgroundActions(heap), kTuning.idle_release.background_idle_ms);
  EXPECT_EQ(heap.page_heap.GetStats().releases, 0u);
}

TEST(BackgroundThreadTest, RateZeroIsNever) {
  Heap& heap = HeapWithFreeMemory(0);
  EXPECT_EQ(DoBackgroundActions(heap), kTuning.idle_release.background_idle_ms);
  EXPECT_EQ(FreeMapped(heap), kMuch);
}

// What the last moments needed is kept, and there is something to do soon.
TEST(BackgroundThreadTest, WhatIsNotDueStays) {
  Heap& heap = HeapWithFreeMemory(1);
  const int64_t start_ms = CoarseMilliseconds();
  const int pause = DoBackgroundActions(heap);
  const Length left = FreeMapped(heap);
  const bool is_soon = CoarseMilliseconds() < start_ms + kTuning.release.memory_ms / 2;
  EXPECT_TRUE(left == kMuch || !is_soon) << left.pages();
  EXPECT_EQ(pause, kTuning.idle_release.background_busy_ms);
}

TEST(BackgroundThreadTest, WhatIsDueGoes) {
  Heap& heap = HeapWithFreeMemory(1000);
  Span* const in_use = heap.page_heap.New(Length(1000), SpanState::kLarge);
  // Also spans that are kept for the shards.
  SpanHome& home = heap.central.shards().Ensure(0).home();
  heap.page_heap.DeleteToCache(heap.page_heap.New(Length(8), SpanState::kSmall), home, true);
  const Length all = FreeMapped(heap);
  int turns = 0;
  for (int64_t start_ms = CoarseMilliseconds();
       heap.page_heap.release_pending() && CoarseMilliseconds() < start_ms + 60'000; ++turns) {
    ASSERT_EQ(DoBackgroundActions(heap), kTuning.idle_release.background_busy_ms);
    WaitMillisecond();
  }
  // In one turn, once the peak is forgotten.
  EXPECT_LE(FreeMapped(heap), Length::ForBytes(heap.page_heap.Shares().free_pages));
  EXPECT_GE(heap.page_heap.GetStats().releases, all.pages() / kTuning.release.slice.pages());
  EXPECT_EQ(heap.page_heap.NewFromCache(Length(8), home), nullptr);
  EXPECT_EQ(DoBackgroundActions(heap), kTuning.idle_release.background_idle_ms);
  EXPECT_GT(turns, 0);
  EXPECT_EQ(heap.page_heap.GetStats().large_span_bytes, in_use->bytes());
  heap.CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
