// SPDX-License-Identifier: BSD-3-Clause
// The function of include/tcmalloc/tcmalloc.h that reports whether an address is in the heap.
#include "base/compiler.h"
#include "page_heap/page_map.h"
#include "process/heap.h"
#include "tcmalloc/tcmalloc.h"

extern "C" {

TC_EXPORT int tcmalloc_owns(const void* address) noexcept {
  if (address == nullptr || !tcmalloc::PageMap::InRange(address)) return 0;
  tcmalloc::Heap& heap = tcmalloc::ExistingHeap();
  return heap.guarded.Contains(address) ||
                 heap.page_heap.store()->Owns(tcmalloc::PageId::Containing(address))
             ? 1
             : 0;
}

}  // extern "C"
