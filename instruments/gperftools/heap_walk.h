// SPDX-License-Identifier: BSD-3-Clause
// A walk over all spans of the heap, for the functions of MallocExtension that need more than a
// snapshot has. Cost: one hold of the page heap's lock per few dozen spans, and one of a central
// free list's lock per span of small objects.
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
  // For kLarge: the bytes of its object. A sampled small object is shorter than its pages.
  size_t object_bytes = 0;
  // For kSmall: the objects that are free in the central free list. Objects in caches do not count
  // as free.
  size_t free_objects = 0;
};

// Calls the function for every span in address order. No lock is held during the call: it may
// allocate. Spans that change during the walk may be missing.
void ForEachRange(Heap& heap, void (*function)(void* argument, const HeapRange& range),
                  void* argument);

}  // namespace tcmalloc
