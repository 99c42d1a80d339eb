// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h that tell an object's size and the heap's addresses.
#include "base/compiler.h"
#include "entry/slow_path.h"
#include "heap/heap.h"
#include "page/page_map.h"
#include "tcmalloc/tcmalloc.h"

extern "C" {

TC_EXPORT size_t tcmalloc_get_allocated_size(const void* object) noexcept {
  return tcmalloc::UsableSize(const_cast<void*>(object));
}

TC_EXPORT size_t tcmalloc_get_estimated_allocated_size(size_t size) noexcept {
  return tcmalloc::AllocationSize(size, 1);
}

TC_EXPORT int tcmalloc_owns(const void* address) noexcept {
  if (address == nullptr || !tcmalloc::PageMap::InRange(address)) return 0;
  return tcmalloc::ExistingHeap().page_heap.store()->Owns(tcmalloc::PageId::Containing(address))
             ? 1
             : 0;
}

}  // extern "C"
