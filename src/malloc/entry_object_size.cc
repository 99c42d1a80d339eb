// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h that return an object's size.
#include "base/compiler.h"
#include "malloc/slow_path.h"
#include "tcmalloc/tcmalloc.h"

extern "C" {

TC_EXPORT size_t tcmalloc_get_allocated_size(const void* object) noexcept {
  return tcmalloc::UsableSize(const_cast<void*>(object));
}

TC_EXPORT size_t tcmalloc_get_estimated_allocated_size(size_t size) noexcept {
  return tcmalloc::AllocationSize(size, 1);
}

}  // extern "C"
