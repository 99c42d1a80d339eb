// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/gperftools/heap_walk.h"

#include "process/fork.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// The most spans that one hold of the heap lists.
constexpr size_t kSpansAtOnce = 32;

HeapRange::Use UseOf(const SpanView& view) {
  switch (view.state) {
    case SpanState::kFreeBacked:
    case SpanState::kReleasing:
    case SpanState::kKept:
      return HeapRange::Use::kFree;
    case SpanState::kFreeReleased:
      return HeapRange::Use::kReleased;
    case SpanState::kLarge:
      return HeapRange::Use::kLarge;
    case SpanState::kSmall:
      // A span without a class is a kept span, which is free for the next use.
      return view.size_class == SizeClass::kNone ? HeapRange::Use::kFree : HeapRange::Use::kSmall;
    default:
      return HeapRange::Use::kOther;
  }
}

}  // namespace

void ForEachRange(Heap& heap, void (*function)(void* argument, const HeapRange& range),
                  void* argument) {
  SpanView views[kSpansAtOnce];
  PageId from;
  // Shards change their kept spans without the page heap's lock.
  const auto list = [&] {
    HoldHeap();
    const size_t n = heap.page_heap.store()->ListSpans(from, views, kSpansAtOnce);
    ReleaseHeap();
    return n;
  };
  while (const size_t n = list()) {
    for (size_t i = 0; i < n; ++i) {
      const SpanView& view = views[i];
      HeapRange range = {view.first_page, view.num_pages, UseOf(view), view.size_class,
                         view.object_bytes};
      if (range.use == HeapRange::Use::kSmall) {
        range.free_objects =
            heap.central.free_list(view.size_class).FreeObjectsIn(view.span, view.first_page);
      }
      function(argument, range);
    }
    from = views[n - 1].first_page + views[n - 1].num_pages;
  }
}

}  // namespace tcmalloc
