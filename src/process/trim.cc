// SPDX-License-Identifier: BSD-3-Clause
#include "process/trim.h"

#include <algorithm>

#include "process/current_thread.h"
#include "process/heap.h"

namespace tcmalloc {

size_t FlushThreadCaches(Heap& heap) {
  while (heap.registry.AdoptOrphan()) {
  }
  return heap.registry.FlushAll(current_slot.cache);
}

size_t FlushCentralCaches(Heap& heap) { return heap.page_heap.DrainSpanCaches(); }

size_t FlushCaches(Heap& heap) {
  const size_t of_threads = FlushThreadCaches(heap);
  return std::max(of_threads, FlushCentralCaches(heap));
}

size_t Trim(Heap& heap, size_t keep_bytes) {
  FlushCaches(heap);
  if (heap.settings.disable_memory_release) return 0;
  const size_t in_holes = heap.holes.ReleaseAll();
  // This is read after ReleaseAll, since a span whose last objects were freed meanwhile now belongs
  // to the page heap.
  const size_t free_bytes = heap.page_heap.GetStats().free_backed_bytes;
  if (free_bytes <= keep_bytes) return in_holes;
  const Length excess = Length::ForBytes(free_bytes - keep_bytes);
  return in_holes + heap.page_heap.ReleaseAtLeast(excess).bytes();
}

}  // namespace tcmalloc
