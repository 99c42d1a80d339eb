// SPDX-License-Identifier: BSD-3-Clause
// The functions of MallocExtension about the program's objects. The debug libraries
// (program_objects_debug.cc) know more about objects than the others (program_objects.cc).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "gperftools/malloc_extension.h"

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
enum class VerifiedAs : uint8_t { kMalloc, kNew, kNewArray };
// As VerifyAllObjects, for the object at `p`. Also checks that the functions of `as` allocated it.
bool VerifyObject(const void* p, VerifiedAs as);

// The bytes of the freed objects whose memory is not in use again yet.
size_t FreedObjectsBytes();

}  // namespace tcmalloc
