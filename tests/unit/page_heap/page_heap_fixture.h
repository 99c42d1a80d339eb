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

// Checks that no page of a released span is backed.
inline void CheckReleasedPagesAreNotBacked(PageHeapUnderTest& under_test) {
  PageHeap& heap = under_test.heap;
  heap.CheckInvariants();
  std::vector<SpanView> spans(64);
  PageId from;
  while (const size_t n = heap.store()->ListSpans(from, spans.data(), spans.size())) {
    for (size_t i = 0; i < n; ++i) {
      const PageRange pages = {spans[i].first_page, spans[i].first_page + spans[i].num_pages};
      from = pages.end;
      if (spans[i].state != SpanState::kFreeReleased) continue;
      const size_t step = under_test.vm.hardware_page_size();
      for (uintptr_t at = 0; at < pages.bytes(); at += step) {
        ASSERT_FALSE(under_test.vm.IsResident(pages.first.start_uintptr() + at))
            << "page " << at / kPageSize << " of " << spans[i].num_pages.pages() << " at "
            << pages.start_address();
      }
    }
  }
}

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
