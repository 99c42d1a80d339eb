// SPDX-License-Identifier: BSD-3-Clause
// What MallocExtension tells that is in no snapshot: a walk over all spans of the heap.
#pragma once

#include <cstddef>

#include "base/size_classes.h"
#include "base/units.h"

namespace tcmalloc {

struct Heap;

struct HeapRange {
  enum class Use { kSmall, kLarge, kFree, kReleased, kOther };

  PageId first_page;
  Length num_pages;
  Use use = Use::kOther;
  SizeClass size_class = SizeClass::kNone;
  // kSmall: free in the central free list; what lies in caches is not counted.
  size_t free_objects = 0;
};

// Calls the function for every span, in order of their addresses. No lock is held meanwhile: it may
// allocate. Spans that change during the walk may be missing.
void ForEachRange(Heap& heap, void (*function)(void* argument, const HeapRange& range),
                  void* argument);

}  // namespace tcmalloc
