// SPDX-License-Identifier: BSD-3-Clause
// A walk over all spans of the heap, for the functions of MallocExtension that need more than a
// snapshot has. Cost: a lock of the page heap per few dozen spans, and of a central free list per
// span of small objects.
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
  // kSmall: free in the central free list; objects in caches do not count as free.
  size_t free_objects = 0;
};

// Calls the function for every span in address order. No lock is held during the call: it may
// allocate. Spans that change during the walk may be missing.
void ForEachRange(Heap& heap, void (*function)(void* argument, const HeapRange& range),
                  void* argument);

}  // namespace tcmalloc
