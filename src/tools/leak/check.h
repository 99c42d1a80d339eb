// SPDX-License-Identifier: BSD-3-Clause
// A check for leaks, from beginning to end: take the heap's locks, stop the other threads, list the
// objects in use, mark what is reachable from the roots, count the rest by call site, and resume.
//
// Where the system does not let threads be stopped, the check works while they run. They cannot
// allocate or free meanwhile. They may hold pointers that the check misses, and may unmap what it
// searches, so it reads with a guarded reader. A thread that does not stop in time is tried again
// for some seconds; then there is no result. The report says all of that.
//
// Parts: tools/leak/leak_request.h says what is looked for, tools/leak/heap_at_rest.h stops the
// threads, tools/leak/examination.h searches.
//
// Nothing here calls malloc: memory comes from mappings of the check's own, which are not searched.
// Thread safety: any thread that holds no lock; a second check waits until the first is done. Cost:
// see docs/leak-checker.md: the other threads are stopped for some milliseconds, and some hundred
// milliseconds per GiB of objects.
#pragma once

#include "heap/heap.h"
#include "tools/leak/check_memory.h"
#include "tools/leak/found_leaks.h"
#include "tools/leak/leak_request.h"
#include "tools/leak/object_index.h"

namespace tcmalloc {

// Makes the check. Requires: the report is new.
void CheckForLeaks(Heap& heap, const LeakRequest& request, FoundLeaks* report);

// The objects in use at one moment, for a later check that reports only newer ones. It knows
// objects by their address: an object that was freed since still counts if another one has its
// place. Where allocations are recorded, a period (tools/leak/annotations.h) is exact and costs
// nothing.
class HeapMoment {
 public:
  explicit HeapMoment(Heap& heap) : memory_(heap.virtual_memory), index_(memory_) {}
  // Once. False when there is no memory, or threads could not be stopped.
  [[nodiscard]] bool Take(Heap& heap);
  const ObjectIndex& index() const { return index_; }

 private:
  CheckMemory memory_;
  ObjectIndex index_;
};

}  // namespace tcmalloc
