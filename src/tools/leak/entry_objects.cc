// SPDX-License-Identifier: BSD-3-Clause
// The function of include/tcmalloc/tcmalloc.h that walks over all objects.
#include "base/compiler.h"
#include "heap/heap.h"
#include "heap/heap_hold.h"
#include "os/memory/virtual_memory.h"
#include "tcmalloc/tcmalloc.h"
#include "tools/leak/check_memory.h"
#include "tools/leak/object_index.h"

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
