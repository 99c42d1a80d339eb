// SPDX-License-Identifier: BSD-3-Clause
#include "process/release.h"

#include <algorithm>

#include "os/threads.h"
#include "process/background_thread.h"
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

bool IdleRelease::RunPass(Heap& heap, uint32_t frees) {
  idle_passes_ = frees == frees_ ? idle_passes_ + 1 : 0;
  frees_ = frees;
  const bool idle = idle_passes_ > 0;
  const double rate = heap.page_heap.governor()->release_rate();
  bool released = false;
  heap.registry.FollowRetention();
  bool in_use = false;
  if (idle && rate > 0) {
    // These may be what makes a release pending.
    in_use = heap.registry.FlushIdle().in_use;
    heap.page_heap.DrainSpanCaches();
  }
  if (IsReleasePending(heap.page_heap)) {
    // Pages are released slice by slice. For each slice the pages due are computed again, so that a
    // program that starts to allocate again keeps the rest.
    while ((stop_ == nullptr || stop_->load(std::memory_order_relaxed) == 0) &&
           heap.page_heap.ReleaseDue(kReleaseSlice) > Length(0)) {
      released = true;
    }
  }
  // At a low rate a pass may release nothing although pages are left to release.
  const bool done = rate <= 0 || idle_passes_ * std::min(rate, 1.0) >= kSleepAfterPasses;
  return !done || released || in_use;
}

void ProcessBackgroundActions(Heap& heap) {
  for (IdleRelease idle_release;;) {
    idle_release.RunPass(heap, NumFrees());
    SleepMilliseconds(kIdlePassMs);
  }
}

}  // namespace tcmalloc
