// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/debug/allocation.h"
#include "instruments/debug/checks.h"
#include "instruments/gperftools/program_objects.h"
#include "process/heap.h"

namespace tcmalloc {

void CountObjects(Heap& heap, ObjectCounts* counts) {
  ForEachLiveObject(
      heap,
      [](void* argument, const DebugObject& object) {
        static_cast<ObjectCounts*>(argument)->Add(1, object.size);
      },
      counts);
}

bool VerifyAllObjects() {
  VerifyHeap(ExistingHeap());
  return true;
}

bool VerifyObject(const void* p, AllocatedBy by) {
  VerifyOne(p, by);
  return true;
}

size_t FreedObjectsBytes() { return free_queue.bytes(); }

}  // namespace tcmalloc
