// SPDX-License-Identifier: BSD-3-Clause
// A page heap and the parts that it needs. The pages come from one fake OS, metadata and page-map
// leaves from another, so that the first can be out of memory.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "os/spinlock.h"
#include "page_heap/metadata_arena.h"
#include "page_heap/page_heap.h"
#include "page_heap/page_map.h"
#include "page_heap/span_home.h"
#include "testing/fake_virtual_memory.h"
#include "testing/kept_spans.h"

namespace tcmalloc {

// A home with the lock that its shard would have.
struct LockOfHome {
  SpinLock lock{LockRank::kShard};
};
struct HomeUnderTest : LockOfHome, SpanHome {
  HomeUnderTest() : SpanHome(LockOfHome::lock) {}
};

struct PageHeapUnderTest {
  static constexpr size_t kHomes = 16;

  explicit PageHeapUnderTest(const FakeVirtualMemory::Options& options,
                             const PageHeapOptions& heap_options = PageHeapOptions())
      : vm(options), heap(vm, *page_map, arena, heap_options) {
    const PageId first(vm.base() >> kPageShift);
    EXPECT_TRUE(page_map->EnsureLeaves(
        first - Length(1), Length::ForBytes(options.range_bytes) + Length(2), metadata_vm));
    // The heap visits the homes in the reverse order of adding.
    for (size_t i = kHomes; i > 0; --i) heap.AddHome(homes[i - 1]);
  }

  FakeVirtualMemory vm;
  FakeVirtualMemory metadata_vm;
  // The page map is large, and zero-filled as PageMap requires.
  const std::unique_ptr<PageMap> page_map = std::make_unique<PageMap>();
  MetadataArena arena{metadata_vm};
  PageHeap heap;
  std::array<HomeUnderTest, kHomes> homes;
};

// Calls f for each span of the heap, in the order of addresses.
template <typename F>
void ForEachSpan(PageHeap& heap, F f) {
  std::vector<SpanView> spans(64);
  PageId from;
  while (const size_t n = heap.store()->ListSpans(from, spans.data(), spans.size())) {
    for (size_t i = 0; i < n; ++i) f(spans[i]);
    from = spans[n - 1].first_page + spans[n - 1].num_pages;
  }
}

// Checks that no page of a released span is backed.
inline void CheckReleasedPagesAreNotBacked(PageHeapUnderTest& under_test) {
  under_test.heap.store()->CheckInvariants();
  ForEachSpan(under_test.heap, [&](const SpanView& span) {
    if (span.state != SpanState::kFreeReleased) return;
    const uintptr_t start = span.first_page.start_uintptr();
    for (size_t at = 0; at < span.num_pages.bytes(); at += under_test.vm.hardware_page_size()) {
      ASSERT_FALSE(under_test.vm.IsResident(start + at))
          << "page " << at / kPageSize << " of " << span.num_pages.pages() << " at " << start;
    }
  });
}

// A page heap that releases nothing unasked, and whose clock the test sets. At the end of each test
// the invariants of its spans are checked.
class PageHeapFixture : public testing::Test {
 protected:
  explicit PageHeapFixture(
      const FakeVirtualMemory::Options& options = FakeVirtualMemory::AddressOnly(uint64_t{8} << 30),
      PageHeapOptions heap_options = {})
      : under_test_(options, WithClock(heap_options)) {
    clock_ms_ = 0;
    heap_.governor()->SetReleaseRate(0);
  }
  ~PageHeapFixture() override { heap_.store()->CheckInvariants(); }

  Span* New(size_t pages, SpanState use = SpanState::kLarge) {
    Span* const span = heap_.New(Length(pages), use);
    EXPECT_NE(span, nullptr);
    return span;
  }
  void Keep(Span* span, size_t home) { DeleteToCache(heap_, span, under_test_.homes[home], true); }

  static PageHeapOptions WithClock(PageHeapOptions options) {
    options.now_ms = [] { return clock_ms_; };
    return options;
  }

  static inline int64_t clock_ms_ = 0;
  PageHeapUnderTest under_test_;
  PageHeap& heap_ = under_test_.heap;
  FakeVirtualMemory& vm_ = under_test_.vm;
};

// A function, so that its arguments are evaluated before the page heap is locked.
inline void SetLimit(PageHeap& heap, LimitKind kind, size_t bytes,
                     LimitOrigin origin = LimitOrigin::kProgram) {
  heap.governor()->SetLimit(kind, bytes, origin);
}
inline size_t LimitOf(PageHeap& heap, LimitKind kind) {
  MemoryLimits limits = heap.governor()->limits();
  return limits.of(kind);
}

}  // namespace tcmalloc
