// SPDX-License-Identifier: BSD-3-Clause
// The function of include/tcmalloc/tcmalloc.h that walks over all objects.
#include "base/compiler.h"
#include "instruments/leaks/check_memory.h"
#include "instruments/leaks/object_index.h"
#include "instruments/leaks/program_object.h"
#include "instruments/world_stop/memory_reader.h"
#include "os/memory/virtual_memory.h"
#include "process/fork.h"
#include "process/heap.h"
#include "tcmalloc/tcmalloc.h"

using tcmalloc::LiveObject;
using tcmalloc::ProgramObject;

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
  // Other threads may free objects, and their memory may be released, during this walk.
  const tcmalloc::MemoryReader reader(/*guarded=*/false);
  index.ForEach([&](const LiveObject& object) {
    const ProgramObject seen = ProgramObjectOf(object, &reader);
    if (seen.state != ProgramObject::State::kInUse) return;
    callback(reinterpret_cast<void*>(seen.start), seen.bytes, context);
  });
  return 1;
}

}  // extern "C"
