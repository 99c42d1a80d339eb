// SPDX-License-Identifier: BSD-3-Clause
// The function of include/tcmalloc/tcmalloc.h that walks over all objects.
#include "base/compiler.h"
#include "leak/check_memory.h"
#include "leak/object_index.h"
#include "os/virtual_memory.h"
#include "runtime/heap.h"
#include "runtime/heap_hold.h"
#include "tcmalloc/tcmalloc.h"

using tcmalloc::LiveObject;

extern "C" {

TC_EXPORT int tcmalloc_for_each_object(tcmalloc_object_callback callback, void* context) {
  tcmalloc::Heap& heap = tcmalloc::ExistingHeap();
  if (tcmalloc::HoldsHeap()) return 0;
  tcmalloc::SystemVirtualMemory vm;
  tcmalloc::CheckMemory memory(vm);
  tcmalloc::ObjectIndex index(memory);
  tcmalloc::HoldHeap();
  const bool built = index.Build(heap);
  tcmalloc::ReleaseHeap();
  if (!built) return 0;
  index.ForEach([&](const LiveObject& object) {
    callback(reinterpret_cast<void*>(object.start), object.bytes, context);
  });
  return 1;
}

}  // extern "C"
