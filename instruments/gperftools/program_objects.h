// SPDX-License-Identifier: BSD-3-Clause
// The functions of MallocExtension about the program's objects. The debug libraries
// (program_objects_debug.cc) know more about objects than the others (program_objects.cc). And a
// walk over all spans of the heap.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/size_classes.h"
#include "base/units.h"
#include "gperftools/malloc_extension.h"
#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {

struct Heap;

// The counts of MallocMemoryStats.
struct ObjectCounts {
  size_t objects = 0;
  size_t bytes = 0;
  size_t of_size[kMallocHistogramSize] = {};

  // An object of no bytes is in the first line.
  void Add(size_t count, size_t size) {
    objects += count;
    bytes += count * size;
    of_size[size == 0 ? 0 : std::bit_width(size) - 1] += count;
  }
};
void CountObjects(Heap& heap, ObjectCounts* counts);

// Checks the red zones of all objects, and the patterns of freed ones. Damage ends the process with
// a report. Always returns true in libraries without red zones.
bool VerifyAllObjects();
// As VerifyAllObjects, for the object at `p`. Also checks that the functions of `by` allocated it.
bool VerifyObject(const void* p, AllocatedBy by);

// The bytes of the freed objects whose memory is not in use again yet.
size_t FreedObjectsBytes();

// A walk over all spans of the heap, for the functions of MallocExtension that need more than a
// snapshot has. Cost: one hold of the page heap's lock per few dozen spans, and one of a central
// free list's lock per span of small objects.

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
