// SPDX-License-Identifier: BSD-3-Clause
#include "heap/idle_release.h"

#include <algorithm>

#include "base/tuning.h"
#include "heap/background_thread.h"
#include "heap/heap.h"
#include "os/detached_thread.h"

namespace tcmalloc {

int IdleRelease::RunPass(Heap& heap, uint32_t frees) {
  constexpr auto& kRules = kTuning.idle_release;
  idle_passes_ = frees == frees_ ? idle_passes_ + 1 : 0;
  frees_ = frees;
  const bool idle = idle_passes_ > 0;
  bool released = false;
  heap.registry.FollowRetention();
  if (heap.page_heap.release_pending()) {
    if (idle && idle_passes_ <= kRules.flush_passes) heap.registry.FlushIdle();
    // Pages are released slice by slice. For each slice the pages due are computed again, so that a
    // program that starts to allocate again keeps the rest.
    while ((stop_ == nullptr || stop_->load(std::memory_order_relaxed) == 0) &&
           heap.page_heap.ReleaseDue(PageHeap::kReleaseSlice, idle) > Length(0)) {
      released = true;
    }
  }
  // At a low rate a pass may release nothing although pages are left to release.
  const double rate = heap.page_heap.governor()->release_rate();
  const bool done = rate <= 0 || idle_passes_ * std::min(rate, 1.0) >= kRules.sleep_after_passes;
  const bool sleep = done && !released;
  return sleep ? kUntilFrees : kRules.pass_ms;
}

void ProcessBackgroundActions(Heap& heap) {
  for (IdleRelease idle_release;;) {
    idle_release.RunPass(heap, NumFrees());
    SleepMilliseconds(kTuning.idle_release.pass_ms);
  }
}

}  // namespace tcmalloc
