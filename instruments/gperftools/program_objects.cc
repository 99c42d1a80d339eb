// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/gperftools/program_objects.h"

#include "instruments/guard/guarded_objects.h"
#include "process/heap.h"
#include "stats/stats.h"

namespace tcmalloc {

void CountObjects(Heap& heap, ObjectCounts* counts) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClassStats c = CollectSizeClassStats(heap, static_cast<SizeClass>(i));
    counts->Add(c.in_use_objects - c.sampled_objects, c.object_size);
  }
  ForEachRange(
      heap,
      [](void* argument, const HeapRange& range) {
        if (range.use != HeapRange::Use::kLarge) return;
        static_cast<ObjectCounts*>(argument)->Add(1, range.object_bytes);
      },
      counts);
  ForEachGuarded(
      heap,
      [](void* argument, size_t bytes) { static_cast<ObjectCounts*>(argument)->Add(1, bytes); },
      counts);
}

bool VerifyAllObjects() { return true; }
bool VerifyObject(const void*, AllocatedBy) { return true; }
size_t FreedObjectsBytes() { return 0; }

}  // namespace tcmalloc
