// SPDX-License-Identifier: BSD-3-Clause
// A complete check for leaks: it takes the heap's locks, stops the other threads, lists the objects
// in use, marks those reachable from the roots, counts the others by call site, and resumes the
// threads.
//
// If the OS does not allow the check to stop threads, it works while they run. They cannot allocate
// or free meanwhile, but may hold pointers that the check misses, and may unmap memory that it
// searches, so it uses a guarded reader. If a thread does not stop in time, the check repeats its
// attempts for some seconds; then there is no result. The report mentions each of these cases.
//
// Parts: instruments/leaks/leak_request.h has the options, instruments/leaks/heap_at_rest.h stops
// the threads, instruments/leaks/examination.h searches.
//
// Nothing here calls malloc: the check has its own mappings, which are not searched. Thread safety:
// any thread that holds no lock; a second check waits until the first is done. Cost (see
// docs/leak-checker.md): the other threads are stopped for some milliseconds, plus some hundred
// milliseconds per GiB of objects.
#pragma once

#include "instruments/leaks/check_memory.h"
#include "instruments/leaks/found_leaks.h"
#include "instruments/leaks/leak_request.h"
#include "instruments/leaks/object_index.h"
#include "process/heap.h"

namespace tcmalloc {

// Makes the check. Requires: the report is empty.
void CheckForLeaks(Heap& heap, const LeakRequest& request, FoundLeaks* report);

// The objects in use at one moment, for a later check that reports only newer ones. It knows
// objects by their address: a new object counts as old if it has the address of an object that was
// freed since. If allocations are recorded, a period (instruments/leaks/annotations.h) is exact and
// costs nothing.
class HeapMoment {
 public:
  explicit HeapMoment(Heap& heap) : memory_(heap.virtual_memory), index_(memory_) {}
  // May be called once. False when there is no memory, or threads could not be stopped.
  [[nodiscard]] bool Take(Heap& heap);
  const ObjectIndex& index() const { return index_; }

 private:
  CheckMemory memory_;
  ObjectIndex index_;
};

}  // namespace tcmalloc
