// SPDX-License-Identifier: BSD-3-Clause
// Tests the passes of idle release, one at a time.
#include "process/release.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "os/clock.h"
#include "page_heap/release_policy.h"
#include "process/current_thread.h"
#include "process/new_heap.h"
#include "stats/stats.h"
#include "testing/kept_spans.h"
#include "thread_cache/cache_fixture.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

// True if each of the bytes is `value`. Released memory reads as zeros.
bool AllAre(char value, const void* start, size_t bytes) {
  const char* const p = static_cast<const char*>(start);
  return std::all_of(p, p + bytes, [value](char byte) { return byte == value; });
}

class TrimTest : public testing::Test {
 protected:
  TrimTest() { heap_.page_heap.governor()->SetReleaseRate(0); }

  Heap& heap_ = NewHeap();
};

TEST_F(TrimTest, AnEmptyHeapHasNothingToRelease) {
  // A flush also empties the calling thread's cache, in which other tests may have left objects.
  if (current_slot.cache != nullptr) current_slot.cache->Flush();
  EXPECT_EQ(FlushCaches(heap_), 0u);
  EXPECT_EQ(Trim(heap_, 0), 0u);
}

TEST_F(TrimTest, KeepsTheRequestedBytes) {
  heap_.page_heap.Delete(heap_.page_heap.New(Length(1000), SpanState::kLarge));
  const size_t before = CollectStats(heap_).page_heap_free_bytes;
  ASSERT_EQ(before, Length(1000).bytes());
  EXPECT_EQ(Trim(heap_, before), 0u);
  EXPECT_EQ(Trim(heap_, before + 1), 0u);
  const size_t keep = Length(300).bytes();
  const size_t released = Trim(heap_, keep);
  EXPECT_EQ(released, before - keep);
  EXPECT_EQ(CollectStats(heap_).page_heap_free_bytes, keep);
  EXPECT_EQ(Trim(heap_, SIZE_MAX), 0u);
  EXPECT_EQ(Trim(heap_, 0), keep);
}

TEST_F(TrimTest, EmptiesOrphans) {
  const SizeClass c = ClassForSize(256);
  const size_t batch = kSizeClasses.batch_size(c);
  TestThread orphan(heap_.registry);
  std::vector<void*> objects;
  for (size_t i = 0; i < 20 * batch; ++i) objects.push_back(orphan.Allocate(c));
  for (void* const object : objects) orphan.Free(c, object);
  heap_.registry.lock().Lock();
  heap_.registry.OrphanOthersInChild(nullptr);
  heap_.registry.lock().Unlock();
  const size_t in_caches = CollectStats(heap_).thread_cache_bytes;
  ASSERT_GT(in_caches, 0u);
  EXPECT_GE(FlushCaches(heap_), in_caches);
  const HeapStats s = CollectStats(heap_);
  EXPECT_EQ(s.central_bytes + s.thread_cache_bytes, 0u);
  EXPECT_EQ(s.in_use_bytes, 0u);
  EXPECT_EQ(s.thread_caches, 0u);
  EXPECT_EQ(Trim(heap_, 0), s.page_heap_free_bytes);
}

// Tests spans in use: objects in caches return first, then the pages of free objects are released,
// no matter how much of the page heap's memory is to be kept.
TEST_F(TrimTest, ReleasesFreePagesInsideSpansInUse) {
  const SizeClass c = ClassForSize(4096);
  const size_t page = SystemVirtualMemory().hardware_page_size();
  ASSERT_EQ(page, 4096u);
  TestThread thread(heap_.registry);
  std::vector<void*> objects;
  // Allocates all objects of whole spans.
  for (size_t i = 0; i < 100 * heap_.central.free_list(c).objects_per_span(); ++i) {
    objects.push_back(thread.Allocate(c));
    memset(objects.back(), 1, 4096);
  }
  std::sort(objects.begin(), objects.end());
  Span* const large = heap_.page_heap.New(Length(100), SpanState::kLarge);
  // This span becomes free memory of the page heap, which the call of Trim below keeps.
  FlushCaches(heap_);
  const size_t free_before = CollectStats(heap_).page_heap_free_bytes;
  heap_.page_heap.Delete(large);
  size_t freed = 0;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 8 == 0) continue;
    thread.Free(c, objects[i]);
    ++freed;
  }
  // The owner flushes its cache. Another thread would need the barrier of the process's own heap,
  // which may not exist.
  heap_.registry.FlushAll(thread.cache());
  const HeapStats before = CollectStats(heap_);
  EXPECT_EQ(before.hole_bytes, 0u);
  const size_t keep = free_before + Length(100).bytes();
  EXPECT_EQ(Trim(heap_, keep), freed * 4096);
  const HeapStats after = CollectStats(heap_);
  EXPECT_EQ(after.hole_bytes, freed * 4096);
  EXPECT_EQ(after.central_bytes, freed * 4096);
  EXPECT_EQ(after.in_use_bytes, before.in_use_bytes);
  EXPECT_EQ(after.page_heap_free_bytes, keep);
  EXPECT_GT(after.releases, before.releases);
  for (size_t i = 0; i < objects.size(); ++i) {
    EXPECT_TRUE(AllAre(i % 8 == 0, objects[i], 4096)) << i;
  }
  EXPECT_EQ(Trim(heap_, keep), 0u);
  EXPECT_EQ(Trim(heap_, free_before), Length(100).bytes());
  heap_.CheckInvariants();
}

TEST_F(TrimTest, EmptiesTheCallersCache) {
  ThreadCache* const cache = CurrentCache();
  ASSERT_NE(cache, nullptr);
  Heap& heap = GlobalHeap();
  FlushCaches(heap);
  const size_t in_use = CollectStats(heap).in_use_bytes;
  const SizeClass c = ClassForSize(512);
  std::vector<void*> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back(cache->Allocate(c));
  for (void* const object : objects) cache->Free(c, object);
  const HeapStats before = CollectStats(heap);
  ASSERT_EQ(before.in_use_bytes, in_use);
  ASSERT_GT(before.thread_cache_bytes, 0u);
  EXPECT_GE(FlushCaches(heap), before.thread_cache_bytes);
  const HeapStats after = CollectStats(heap);
  EXPECT_EQ(after.thread_cache_bytes, 0u);
  EXPECT_EQ(CollectSizeClassStats(heap, c).spans, 0u);
  EXPECT_GT(Trim(heap, 0), 0u);
}

}  // namespace
namespace {

constexpr Length kMuch = Length((size_t{64} << 20) >> kPageShift);

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
    ASSERT_TRUE(passes.RunPass(heap, frees));
    for (int pass = 1; pass < kSleepAfterPasses; ++pass) {
      ASSERT_TRUE(passes.RunPass(heap, frees)) << pass;
    }
    ASSERT_FALSE(passes.RunPass(heap, frees));
    ASSERT_FALSE(passes.RunPass(heap, frees)) << "woken for nothing";
  }
  // The free pages are too few to release.
  heap.page_heap.Delete(
      heap.page_heap.New(Length::ForBytes(heap.page_heap.Shares().free_pages), SpanState::kLarge));
  passes.RunPass(heap, 0);
  EXPECT_EQ(heap.page_heap.GetStats().releases, 0u);
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
       IsReleasePending(heap.page_heap) && CoarseMilliseconds() < start_ms + 60'000;) {
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

TEST(IdleReleaseTest, KeptSpansAreReleasedThoughNothingElseIsFree) {
  Heap& heap = NewHeap();
  SpanHome& home = heap.central.shards().Ensure(0).home();
  Span* const span = heap.page_heap.New(kPoolChunk, SpanState::kLarge);
  ASSERT_TRUE(heap.page_heap.DeleteLargeAt(span, span->start_address(), nullptr, &home));
  IdleRelease passes;
  passes.RunPass(heap, 1);
  EXPECT_EQ(home.pool.bytes(), kPoolChunk.bytes());
  passes.RunPass(heap, 1);
  EXPECT_EQ(home.pool.bytes(), 0u);
}

// The caches of threads of a heap that has nothing to release.
class IdleReleaseCachesTest : public testing::Test {
 protected:
  IdleReleaseCachesTest() {
    EnsureHeap();  // the test uses the barrier of this heap
    heap_.page_heap.governor()->SetReleaseRate(1);
  }
  void SetUp() override {
    if (!ExistingHeap().membarrier.Issue()) GTEST_SKIP() << "no membarrier";
    ASSERT_FALSE(IsReleasePending(heap_.page_heap));
  }

  static void Use(TestThread& thread) { thread.Use(kSizeClasses.ClassOf(64), 100); }
  // From now on the thread's cache counts as idle if it has not changed since the last pass.
  static void PretendTimePassed(TestThread& thread) {
    thread.cache()->record.stamped_at_ms -= 1000 * kIdleCacheMs;
  }

  Heap& heap_ = NewHeap();
  IdleRelease passes_;
};

// A thread uses its cache between passes, long after pages were last freed. When the thread becomes
// idle its cache is flushed.
TEST_F(IdleReleaseCachesTest, FlushesCachesThatBecomeIdleLater) {
  TestThread thread(heap_.registry);
  for (int pass = 0; pass <= 2 * kSleepAfterPasses; ++pass) {
    Use(thread);
    PretendTimePassed(thread);
    ASSERT_TRUE(passes_.RunPass(heap_, 1)) << pass;
    ASSERT_GT(thread.CachedBytes(), 0u) << pass;
  }
  PretendTimePassed(thread);
  EXPECT_FALSE(passes_.RunPass(heap_, 1));
  EXPECT_EQ(thread.CachedBytes(), 0u);
  heap_.registry.CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
