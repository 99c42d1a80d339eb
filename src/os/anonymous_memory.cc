// SPDX-License-Identifier: BSD-3-Clause
#include "os/anonymous_memory.h"

#include "base/check.h"

namespace tcmalloc {

Mapping AnonymousMemory::Map(size_t bytes, size_t alignment) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  if (options_.use_mmap) {
    const Mapping mapping = mmap_.Map(bytes, alignment);
    if (mapping.start != nullptr) return mapping;
  }
  if (!options_.use_sbrk) return {};
  void* const start = sbrk_.Map(bytes, alignment, hardware_page_size());
  return start == nullptr ? Mapping() : Mapping{start, bytes, true};
}

bool AnonymousMemory::Unmap(void* start, size_t bytes) {
  return !sbrk_.MayHold(start, bytes) && mmap_.Unmap(start, bytes);
}

}  // namespace tcmalloc
