// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/actions.h"

#include "os/clock.h"
#include "process/heap.h"
#include "process/trim.h"

namespace tcmalloc {
namespace {

size_t ReleaseFreePages(Heap& heap) {
  const Length free = Length::ForBytes(heap.page_heap.GetStats().free_backed_bytes);
  return free == Length(0) ? 0 : heap.page_heap.ReleaseAtLeast(free).bytes();
}

size_t Perform(Heap& heap, int level) {
  if (level == 1) return FlushThreadCaches(heap);
  if (level == 2 || heap.settings.disable_memory_release) return FlushCaches(heap);
  FlushCaches(heap);
  const size_t free_bytes = ReleaseFreePages(heap);
  return free_bytes + heap.holes.ReleaseAll();
}

}  // namespace

size_t ActOnPressure(Heap& heap, int level) {
  heap.page_heap.hints().retention.NotePressure(level, CoarseMilliseconds());
  heap.registry.FollowRetention();
  const size_t bytes = Perform(heap, level);
  heap.pressure_counts.Acted(level, bytes);
  return bytes;
}

}  // namespace tcmalloc
