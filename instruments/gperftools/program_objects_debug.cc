// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/debug/checks.h"
#include "instruments/debug/free_queue.h"
#include "instruments/gperftools/program_objects.h"
#include "process/heap.h"

namespace tcmalloc {

static_assert(static_cast<int>(VerifiedAs::kMalloc) == static_cast<int>(AllocatedBy::kMalloc) &&
              static_cast<int>(VerifiedAs::kNew) == static_cast<int>(AllocatedBy::kNew) &&
              static_cast<int>(VerifiedAs::kNewArray) == static_cast<int>(AllocatedBy::kNewArray));

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

bool VerifyObject(const void* p, VerifiedAs as) {
  VerifyOne(p, static_cast<AllocatedBy>(as));
  return true;
}

size_t FreedObjectsBytes() { return free_queue.bytes(); }

}  // namespace tcmalloc
