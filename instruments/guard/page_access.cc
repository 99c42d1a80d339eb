// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/guard/page_access.h"

#include <sys/mman.h>

#include "os/errno_keeper.h"

namespace tcmalloc {

bool MakeAccessible(uintptr_t start, size_t bytes) {
  const ErrnoKeeper keeper;
  return mprotect(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE) == 0;
}

bool MakeInaccessible(uintptr_t start, size_t bytes) {
  const ErrnoKeeper keeper;
  void* const pages = reinterpret_cast<void*>(start);
  if (mprotect(pages, bytes, PROT_NONE) != 0) return false;
  // Locked memory is not released, which does no harm: the slot's next object is filled and cleared
  // like any other.
  static_cast<void>(madvise(pages, bytes, MADV_DONTNEED));
  return true;
}

}  // namespace tcmalloc
