// SPDX-License-Identifier: BSD-3-Clause
// What a thread does for a heap that nobody calls, a turn at a time.
#include "runtime/background_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "cache/cache_fixture.h"
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
  heap.page_heap.SetReleaseRate(0);
  heap.page_heap.Delete(heap.page_heap.New(kMuch, SpanState::kLarge));
  heap.page_heap.SetReleaseRate(rate);
  return heap;
}

// The first turn sees pages that were freed; then none are for as long as it takes.
TEST(BackgroundTurnsTest, ManyQuietTurnsThenSleep) {
  Heap& heap = NewHeap();
  BackgroundTurns turns;
  for (uint32_t frees : {1, 2, 7, 7000}) {
    ASSERT_EQ(turns.Take(heap, frees), BackgroundTurns::kTurnMs);
    for (int turn = 1; turn < BackgroundTurns::kLastTurn; ++turn) {
      ASSERT_EQ(turns.Take(heap, frees), BackgroundTurns::kTurnMs) << turn;
    }
    ASSERT_EQ(turns.Take(heap, frees), BackgroundTurns::kNever);
    ASSERT_EQ(turns.Take(heap, frees), BackgroundTurns::kNever) << "woken for nothing";
  }
  // Too little to release.
  heap.page_heap.Delete(heap.page_heap.New(ReleasePolicy::kSlack, SpanState::kLarge));
  turns.Take(heap, 0);
  EXPECT_EQ(heap.page_heap.GetStats().releases, 0u);
}

// What was in use until caches were emptied is forgotten before it is time to sleep.
static_assert((BackgroundTurns::kLastTurn - BackgroundTurns::kFlushTurn - 1) *
                  BackgroundTurns::kTurnMs >=
              ReleasePolicy::kMemoryMs);

TEST(BackgroundTurnsTest, RateZeroIsNever) {
  Heap& heap = HeapWithFreeMemory(0);
  BackgroundTurns turns;
  for (int turn = 0; turn < 100; ++turn) turns.Take(heap, 1);
  EXPECT_EQ(FreeMapped(heap), kMuch);
}

// What the last moments needed is kept.
TEST(BackgroundTurnsTest, WhatIsNotDueStays) {
  Heap& heap = HeapWithFreeMemory(1);
  const int64_t start_ms = CoarseMilliseconds();
  BackgroundTurns turns;
  EXPECT_EQ(turns.Take(heap, 1), BackgroundTurns::kTurnMs);
  const Length left = FreeMapped(heap);
  const bool is_soon = CoarseMilliseconds() < start_ms + ReleasePolicy::kMemoryMs / 2;
  EXPECT_TRUE(left == kMuch || !is_soon) << left.pages();
}

TEST(BackgroundTurnsTest, WhatIsDueGoes) {
  Heap& heap = HeapWithFreeMemory(1000);
  Span* const in_use = heap.page_heap.New(Length(1000), SpanState::kLarge);
  // Also spans that are kept for the shards, once nothing is freed any more.
  heap.page_heap.DeleteToCache(heap.page_heap.New(Length(8), SpanState::kSmall), 0, true);
  const Length all = FreeMapped(heap);
  BackgroundTurns turns;
  turns.Take(heap, 1);
  Span* const kept = heap.page_heap.NewFromCache(Length(8), 0);
  ASSERT_NE(kept, nullptr);
  heap.page_heap.DeleteToCache(kept, 0, true);
  for (int64_t start_ms = CoarseMilliseconds();
       heap.page_heap.release_pending() && CoarseMilliseconds() < start_ms + 60'000;) {
    turns.Take(heap, 1);
    WaitMillisecond();
  }
  // In one turn, once the peak is forgotten.
  EXPECT_LE(FreeMapped(heap), ReleasePolicy::kSlack);
  EXPECT_GE(heap.page_heap.GetStats().releases, all.pages() / PageHeap::kReleaseSlice.pages());
  EXPECT_EQ(heap.page_heap.NewFromCache(Length(8), 0), nullptr);
  EXPECT_EQ(heap.page_heap.GetStats().large_span_bytes, in_use->bytes());
  heap.CheckInvariants();
}

TEST(BackgroundTurnsTest, StopsWhenAsked) {
  Heap& heap = HeapWithFreeMemory(1000);
  const int64_t start_ms = CoarseMilliseconds();
  while (CoarseMilliseconds() < start_ms + 50) WaitMillisecond();
  std::atomic<uint32_t> stop{1};
  BackgroundTurns turns(&stop);
  for (int i = 0; i < 3; ++i) turns.Take(heap, 1);
  EXPECT_EQ(FreeMapped(heap), kMuch);
}

// Caches of threads that sleep are emptied in the quiet turns, those of others are not.
TEST(BackgroundTurnsTest, EmptiesTheCachesOfIdleThreads) {
  EnsureHeap();  // whose barrier is used
  Heap& heap = HeapWithFreeMemory(1);
  TestThread sleeper(heap.registry);
  TestThread busy(heap.registry);
  constexpr SizeClass c = kSizeClasses.ClassOf(64);
  const auto use = [](TestThread& thread) {
    void* objects[100];
    for (void*& object : objects) object = thread.Allocate(c);
    for (void* const object : objects) thread.Free(c, object);
  };
  use(sleeper);
  use(busy);
  use(busy);
  BackgroundTurns turns;
  turns.Take(heap, 1);
  ASSERT_GT(sleeper.cache()->CachedBytes(), 0u);
  turns.Take(heap, 1);
  busy.Allocate(c);
  const int64_t start_ms = CoarseMilliseconds();
  while (CoarseMilliseconds() < start_ms + 2 * Registry::kIdleMilliseconds) WaitMillisecond();
  turns.Take(heap, 1);
  if (!ExistingHeap().membarrier.Issue()) GTEST_SKIP() << "no membarrier";
  EXPECT_EQ(sleeper.cache()->CachedBytes(), 0u);
  EXPECT_GT(busy.cache()->CachedBytes(), 0u);
  heap.registry.CheckInvariants();
}

// Starts, ends and wakes the thread from several threads at once.
TEST(BackgroundThreadTest, StartsAndEndsWhileOthersFree) {
  AllowBackgroundThread();
  Heap& heap = ExistingHeap();
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&heap, i] {
        for (int j = 0; j < 100; ++j) {
          heap.page_heap.Delete(
              heap.page_heap.New(ReleasePolicy::kLookEvery + Length(1), SpanState::kLarge));
          // As many as end, but not always one that ends what it has started.
          if (i < 2) OnThreadStarting();
          if (i < 2) j % 16 == 5 ? OnThreadNotStarted() : OnThreadStarted(&pthread_create);
          if (i < 2 && j % 16 != 5) OnThreadEnds(heap);
          if (i == 2) NoteFrees();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // Whatever was started was stopped, so another may start at once.
    ForgetBackgroundThreadInChild();
  }
  heap.page_heap.CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
