// SPDX-License-Identifier: BSD-3-Clause
// Tests PageHeap with its span caches. PageHeapFuzzTest compares with a model which spans are kept
// for a shard, how they are counted, and in which order they are used.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "page_heap/page_heap.h"
#include "page_heap/release_policy.h"
#include "page_heap/span_home.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/kept_spans.h"
#include "testing/random.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

constexpr size_t kHomes = PageHeapUnderTest::kHomes;

constexpr size_t kPagesInMiB = kMiB / kPageSize;

// The first growth is a mebibyte; later growths are further mappings.
class PageHeapSpanCacheTest : public testing::Test {
 protected:
  PageHeapSpanCacheTest() {
    clock_ms_ = 0;
    heap_.governor()->SetReleaseRate(0);
  }

  Span* New(size_t pages, SpanState use = SpanState::kSmall) {
    Span* const span = heap_.New(Length(pages), use);
    EXPECT_NE(span, nullptr);
    return span;
  }
  void Keep(Span* span, size_t shard) {
    DeleteToCache(heap_, span, under_test_.homes[shard], true);
  }

  static inline int64_t clock_ms_ = 0;
  static inline std::function<void()> on_look_;  // as the heap's free_observer

  PageHeapUnderTest under_test_{FakeVirtualMemory::AddressOnly(size_t{1} << 30),
                                {.now_ms = [] { return clock_ms_; }}};
  PageHeap& heap_ = under_test_.heap;
  FakeVirtualMemory& vm_ = under_test_.vm;
};

// Each time that the drain has returned some spans, another thread keeps as many.
TEST_F(PageHeapSpanCacheTest, ADrainEndsAlthoughOthersKeepMoreMeanwhile) {
  constexpr size_t kPages = kMaxKeptPages;
  constexpr size_t kSpansPerLook = kLookEvery.pages() / kPages;
  heap_.hints().retention.SetTotal(1024 * kMiB);
  heap_.governor()->SetReleaseRate(1);
  std::vector<Span*> spans;
  for (size_t i = 0; i < 8 * kHomes * kSpansPerLook; ++i) spans.push_back(New(kPages));
  const auto keep_one = [&](size_t home) {
    Keep(spans.back(), home);
    spans.pop_back();
  };
  for (size_t i = 0; i < kHomes * kSpansPerLook; ++i) keep_one(i % kHomes);
  const size_t kept = heap_.GetStats().kept_span_bytes;
  ASSERT_EQ(kept, kHomes * kSpansPerLook * Length(kPages).bytes());
  size_t looks = 0;
  on_look_ = [&] {
    ++looks;
    for (size_t i = 0; i < kSpansPerLook && !spans.empty(); ++i) keep_one(0);
  };
  heap_.hints().free_observer.store([] { on_look_(); });
  EXPECT_EQ(heap_.DrainSpanCaches(), kept);
  heap_.hints().free_observer.store(nullptr);
  EXPECT_EQ(looks, kHomes);
  EXPECT_EQ(heap_.GetStats().kept_span_bytes, kept);
  // No other thread keeps spans any more.
  EXPECT_EQ(heap_.DrainSpanCaches(), kept);
  EXPECT_EQ(heap_.GetStats().kept_span_bytes, 0u);
  heap_.CheckInvariants();
}

// During each system call another thread frees as much memory as the call releases.
TEST_F(PageHeapSpanCacheTest, AReleaseOfEverythingEndsAlthoughOthersFreeMeanwhile) {
  std::vector<Span*> spans;
  for (size_t i = 0; i < 16; ++i) spans.push_back(New(kPagesInMiB, SpanState::kLarge));
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
  heap_.CheckInvariants();
}

// Before fork the locks of the shards are held.
TEST_F(PageHeapSpanCacheTest, AHomeUsesTheLockOfItsShard) {
  std::array<Span*, kHomes> spans;
  for (Span*& span : spans) span = New(1);
  for (size_t shard = 0; shard < kHomes; ++shard) Keep(spans[shard], shard);
  for (size_t shard = 0; shard < kHomes; ++shard) {
    std::atomic<bool> taken{false};
    SpinLock::BeginForkHold();
    SpinLock& lock = under_test_.homes[shard].LockOfHome::lock;
    lock.HoldForFork();
    std::thread other([&] {
      EXPECT_EQ(NewFromCache(heap_, Length(1), under_test_.homes[shard]), spans[shard]);
      taken = true;
    });
    // The thread cannot end before the locks are free, no matter how long that takes.
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    EXPECT_FALSE(taken) << shard;
    SpinLock::EndForkHold();
    lock.ReleaseAfterForkInParent();
    other.join();
  }
}

// Threads use the caches of their own and of other shards, and the heap, and release, all at once.
// At the end all memory is accounted for.
TEST(PageHeapSpanCacheStressTest, ManyThreads) {
  constexpr size_t kThreads = 6;
  FakeVirtualMemory::Options options;
  options.range_bytes = 256 * kMiB;
  PageHeapUnderTest under_test(options);
  PageHeap& heap = under_test.heap;
  heap.governor()->SetReleaseRate(100);
  std::atomic<size_t> from_cache{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(300 + t);
      struct Mine {
        Span* span;
        size_t mark;
      };
      std::vector<Mine> live;
      const auto word = [](const Mine& mine) {
        return static_cast<size_t*>(mine.span->start_address());
      };
      const auto give_back = [&](Span* span, size_t shard) {
        if (span->state.load() == SpanState::kLarge) return heap.Delete(span);
        DeleteToCache(heap, span, under_test.homes[shard], random.OneIn(2));
      };
      for (int step = 0; step < 3000; ++step) {
        const size_t shard = random.OneIn(4) ? random.Below(kHomes) : t % 3;
        const uint64_t what = random.Below(200);
        if (what == 0) {
          (void)heap.ReleaseAtLeast(Length(random.Below(100)));
        } else if (what == 1) {
          const PageStats stats = heap.GetStats();
          ASSERT_LE(stats.free_backed_bytes, stats.system_bytes);
          ASSERT_LE(stats.small_span_bytes, stats.system_bytes);
        } else if (live.size() < 40 && what < 110) {
          const bool large = random.OneIn(4);
          const Length n(random.Between(1, large ? 200 : kMaxKeptPages + 2));
          Mine mine{NewFromCache(heap, n, under_test.homes[shard]),
                    static_cast<size_t>(random.Next())};
          if (mine.span != nullptr) {
            ++from_cache;
            ASSERT_FALSE(mine.span->zeroed());
          } else {
            mine.span = large ? heap.New(n, SpanState::kLarge, Length(random.OneIn(2) ? 16 : 1))
                              : heap.New(n, SpanState::kSmall);
          }
          ASSERT_NE(mine.span, nullptr);
          ASSERT_EQ(mine.span->num_pages, n);
          if (mine.span->zeroed()) {
            ASSERT_EQ(*word(mine), 0u);
          }
          *word(mine) = mine.mark;
          live.push_back(mine);
        } else if (!live.empty()) {
          std::swap(live[random.Below(live.size())], live.back());
          ASSERT_EQ(*word(live.back()), live.back().mark);
          give_back(live.back().span, shard);
          live.pop_back();
        }
      }
      for (const Mine& mine : live) give_back(mine.span, t);
    });
  }
  for (int i = 0; i < 20; ++i) heap.CheckInvariants();
  for (std::thread& thread : threads) thread.join();
  heap.CheckInvariants();
  EXPECT_GT(from_cache.load(), 100u);
  const PageStats stats = heap.GetStats();
  EXPECT_EQ(stats.small_span_bytes, 0u);
  EXPECT_EQ(stats.large_span_bytes, 0u);
  EXPECT_EQ(stats.large_spans, 0u);
  EXPECT_EQ(stats.releasing_bytes, 0u);
  EXPECT_EQ(stats.free_backed_bytes + stats.free_released_bytes, stats.system_bytes);
  EXPECT_EQ(stats.system_bytes, under_test.vm.mapped_bytes());
  EXPECT_GT(stats.releases, 0u);
  (void)heap.ReleaseAtLeast(kAllPages);
  EXPECT_EQ(heap.GetStats().free_released_bytes, heap.GetStats().system_bytes);
  heap.CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
