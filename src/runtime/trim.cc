// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/trim.h"

#include "runtime/current_thread.h"
#include "runtime/heap.h"

namespace tcmalloc {

size_t FlushCaches(Heap& heap) {
  size_t bytes = 0;
  if (current_slot.cache != nullptr) bytes += current_slot.cache->Flush();
  heap.registry.AdoptOrphans();
  return bytes + heap.central.FlushTransferCaches();
}

size_t Trim(Heap& heap, size_t keep_bytes) {
  FlushCaches(heap);
  const size_t free_bytes = heap.page_heap.GetStats().free_mapped_bytes;
  if (free_bytes <= keep_bytes) return 0;
  return heap.page_heap.ReleaseAtLeast(Length::ForBytes(free_bytes - keep_bytes)).bytes();
}

}  // namespace tcmalloc
