// SPDX-License-Identifier: BSD-3-Clause
// Tests PageHeap with its span caches. PageHeapFuzzTest compares with a model which spans are kept
// for a shard, how they are counted, and in which order they are used.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "page_heap/page_heap.h"
#include "page_heap/release_policy.h"
#include "page_heap/span_home.h"
#include "page_heap_fixture.h"
#include "testing/sizes.h"

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
  heap_.CheckInvariants();
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
  heap_.CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
