// SPDX-License-Identifier: BSD-3-Clause
// Tests PageHeap with its span caches. PageHeapFuzzTest compares with a model which spans are kept
// for a shard, how they are counted, and in which order they are used.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "page_heap/page_heap.h"
#include "page_heap/release_policy.h"
#include "page_heap/span_home.h"
#include "page_heap_fixture.h"
#include "testing/kept_spans.h"
#include "testing/random.h"
#include "testing/run_threads.h"
#include "testing/sizes.h"
#include "testing/thread_state.h"

namespace tcmalloc {
namespace {

constexpr size_t kHomes = PageHeapUnderTest::kHomes;

constexpr size_t kPagesInMiB = kMiB / kPageSize;

std::function<void()> on_look;  // as the heap's free_observer

using PageHeapSpanCacheTest = PageHeapFixture;

// Each time that the drain has returned some spans, another thread keeps as many.
TEST_F(PageHeapSpanCacheTest, ADrainEndsAlthoughOthersKeepMoreMeanwhile) {
  constexpr size_t kPages = kMaxKeptPages;
  constexpr size_t kSpansPerLook = kLookEvery.pages() / kPages;
  heap_.hints().retention.SetTotal(1024 * kMiB);
  heap_.governor()->SetReleaseRate(1);
  std::vector<Span*> spans;
  for (size_t i = 0; i < 8 * kHomes * kSpansPerLook; ++i) {
    spans.push_back(New(kPages, SpanState::kSmall));
  }
  const auto keep_one = [&](size_t home) {
    Keep(spans.back(), home);
    spans.pop_back();
  };
  for (size_t i = 0; i < kHomes * kSpansPerLook; ++i) keep_one(i % kHomes);
  const size_t kept = heap_.GetStats().kept_span_bytes;
  ASSERT_EQ(kept, kHomes * kSpansPerLook * Length(kPages).bytes());
  size_t looks = 0;
  on_look = [&] {
    ++looks;
    for (size_t i = 0; i < kSpansPerLook && !spans.empty(); ++i) keep_one(0);
  };
  heap_.hints().free_observer.store([] { on_look(); });
  EXPECT_EQ(heap_.DrainSpanCaches(), kept);
  heap_.hints().free_observer.store(nullptr);
  EXPECT_EQ(looks, kHomes);
  EXPECT_EQ(heap_.GetStats().kept_span_bytes, kept);
  // No other thread keeps spans any more.
  EXPECT_EQ(heap_.DrainSpanCaches(), kept);
  EXPECT_EQ(heap_.GetStats().kept_span_bytes, 0u);
}

// During each system call another thread frees as much memory as the call releases.
TEST_F(PageHeapSpanCacheTest, AReleaseOfEverythingEndsAlthoughOthersFreeMeanwhile) {
  std::vector<Span*> spans;
  for (size_t i = 0; i < 16; ++i) spans.push_back(New(kPagesInMiB));
  const auto free_one = [&] {
    heap_.Delete(spans.back());
    spans.pop_back();
  };
  for (size_t i = 0; i < 4; ++i) free_one();
  const std::function<void()> free_more = [&] {
    for (size_t i = 0; i < 4 && !spans.empty(); ++i) free_one();
    vm_.OnNextRelease(free_more);
  };
  vm_.OnNextRelease(free_more);
  EXPECT_EQ(heap_.ReleaseAtLeast(kAllPages), Length(4 * kPagesInMiB));
  EXPECT_FALSE(spans.empty());
  vm_.OnNextRelease(nullptr);
  heap_.store()->CheckInvariants();
}

// The lock that is held for fork is the one that guards the spans.
TEST_F(PageHeapSpanCacheTest, AHomeUsesTheLockOfItsShard) {
  for (const size_t shard : {size_t{0}, kHomes - 1}) {
    HomeUnderTest& home = under_test_.homes[shard];
    Span* const span = New(1);
    Keep(span, shard);
    SpinLock& lock = home.LockOfHome::lock;
    SpinLock::BeginForkHold();
    lock.HoldForFork();
    std::atomic<Span*> taken{nullptr};
    std::thread other = StartUntilAsleep([&] { taken = NewFromCache(heap_, Length(1), home); });
    EXPECT_EQ(taken, nullptr);
    SpinLock::EndForkHold();
    lock.ReleaseAfterForkInParent();
    other.join();
    EXPECT_EQ(taken, span);
  }
}

// Threads allocate and free spans with and without caches, their own and others', while memory is
// released. Nothing is in two spans. ThreadSanitizer runs this, too.
TEST(PageHeapSpanCacheStressTest, ManyThreads) {
  FakeVirtualMemory::Options options;
  options.range_bytes = 256 * kMiB;
  PageHeapUnderTest under_test(options);
  PageHeap& heap = under_test.heap;
  heap.governor()->SetReleaseRate(100);
  std::atomic<size_t> from_cache{0};
  RunThreads(6, [&](size_t t) {
    SeededRandom random(300 + t);
    std::vector<std::pair<Span*, size_t>> live;  // with the mark in the span's first word
    const auto word = [](Span* span) { return static_cast<size_t*>(span->start_address()); };
    const auto give_back = [&](size_t shard) {
      const auto [span, mark] = live.back();
      live.pop_back();
      ASSERT_EQ(*word(span), mark);
      if (span->state.load() == SpanState::kLarge) return heap.Delete(span);
      DeleteToCache(heap, span, under_test.homes[shard], random.OneIn(2));
    };
    for (int step = 0; step < 3000; ++step) {
      const size_t shard = random.OneIn(4) ? random.Below(kHomes) : t % 3;
      const uint64_t what = random.Below(200);
      if (what == 0) {
        heap.ReleaseAtLeast(Length(random.Below(100)));
      } else if (what == 1) {
        const PageStats stats = heap.GetStats();
        ASSERT_LE(stats.free_backed_bytes, stats.system_bytes);
        ASSERT_LE(stats.small_span_bytes, stats.system_bytes);
      } else if (what == 2) {
        heap.store()->CheckInvariants();
      } else if (live.size() < 40 && what < 110) {
        const bool large = random.OneIn(4);
        const Length n(random.Between(1, large ? 200 : kMaxKeptPages + 2));
        Span* span = large ? nullptr : NewFromCache(heap, n, under_test.homes[shard]);
        from_cache += span != nullptr;
        if (span == nullptr) {
          span = large ? heap.New(n, SpanState::kLarge, Length(random.OneIn(2) ? 16 : 1))
                       : heap.New(n, SpanState::kSmall);
        }
        ASSERT_NE(span, nullptr);
        ASSERT_EQ(span->num_pages, n);
        if (span->zeroed()) {
          ASSERT_EQ(*word(span), 0u);
        }
        live.emplace_back(span, *word(span) = static_cast<size_t>(random.Next()));
      } else if (!live.empty()) {
        std::swap(live[random.Below(live.size())], live.back());
        give_back(shard);
      }
    }
    while (!live.empty()) give_back(t);
  });
  heap.store()->CheckInvariants();
  EXPECT_GT(from_cache, 100u);
  const PageStats stats = heap.GetStats();
  EXPECT_EQ(stats.small_span_bytes + stats.large_span_bytes + stats.releasing_bytes, 0u);
  EXPECT_EQ(stats.free_backed_bytes + stats.free_released_bytes, stats.system_bytes);
  EXPECT_EQ(stats.system_bytes, under_test.vm.mapped_bytes());
  EXPECT_GT(stats.releases, 0u);
}

}  // namespace
}  // namespace tcmalloc
