// SPDX-License-Identifier: BSD-3-Clause
// PageHeap::NewFromCache and DeleteToCache for one span.
#pragma once

#include <cstddef>

#include "page_heap/page_heap.h"

namespace tcmalloc {

// Returns null if the home keeps no span.
inline Span* NewFromCache(PageHeap& heap, Length n, SpanHome& home) {
  Span* span = nullptr;
  return heap.NewFromCache(n, home, &span, 1) == 1 ? span : nullptr;
}

inline void DeleteToCache(PageHeap& heap, Span* span, SpanHome& home, bool same_shard) {
  heap.DeleteToCache(&span, 1, home, same_shard);
}

}  // namespace tcmalloc
