// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/anonymous_memory.h"

#include "base/check.h"

namespace tcmalloc {

Mapping AnonymousMemory::Map(size_t bytes, size_t alignment) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  Mapping mapping;
  if (options_.use_mmap) mapping = mmap_.Map(bytes, alignment);
  if (mapping.start == nullptr && options_.use_sbrk) {
    void* const start = sbrk_.Map(bytes, alignment, hardware_page_size());
    if (start != nullptr) mapping = {start, bytes, true};
  }
  if (mapping.start != nullptr) List(mapping.start, mapping.bytes);
  return mapping;
}

Mapping AnonymousMemory::MapAt(uintptr_t wanted, size_t bytes) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const Mapping mapping = options_.use_mmap ? mmap_.MapAt(wanted, bytes) : Mapping();
  if (mapping.start == nullptr) return Map(bytes, hardware_page_size());
  List(mapping.start, mapping.bytes);
  return mapping;
}

void* AnonymousMemory::Reserve(size_t bytes) {
  void* const start = mmap_.Reserve(bytes);
  if (start != nullptr) List(start, bytes);
  return start;
}

bool AnonymousMemory::Unmap(void* start, size_t bytes) {
  if (sbrk_.MayHold(start, bytes)) return false;
  // The range leaves the list before the call, since another mapping may get the addresses at once.
  Unlist(start, bytes);
  if (mmap_.Unmap(start, bytes)) return true;
  List(start, bytes);
  return false;
}

bool AnonymousMemory::Move(void* from, size_t bytes, void* to, size_t total) {
  Unlist(to, total);
  if (!mmap_.Move(from, bytes, to, total)) return false;
  List(to, total);
  return true;
}

}  // namespace tcmalloc
