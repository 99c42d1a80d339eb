// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/heap_at_rest.h"

#include <algorithm>

#include "base/tuning.h"
#include "os/clock.h"
#include "process/fork.h"

namespace tcmalloc {

void WaitMilliseconds(int ms) {
  for (int i = 0; i < ms; ++i) WaitMillisecond();
}

StopResult WithHeapAtRest(Heap& heap, void (*function)(void* context, const WorldStop& world),
                          void* context, bool* stopped) {
  const int64_t deadline_us = Microseconds() + kTuning.leak_check.stop_patience_ms * 1000;
  for (int pause_ms = kTuning.leak_check.first_stop_pause_ms;;
       pause_ms = std::min(2 * pause_ms, int{kTuning.leak_check.longest_stop_pause_ms})) {
    *stopped = true;
    HoldHeap();
    StopResult result = WithWorldStopped(heap.virtual_memory, function, context);
    const StopOutcome outcome = result.outcome;
    if (outcome != StopOutcome::kDone && outcome != StopOutcome::kTaskDied &&
        outcome != StopOutcome::kNotInTime) {
      *stopped = false;
      const int reason = result.error;
      result = WithCallerOnly(heap.virtual_memory, function, context);
      if (result.outcome == StopOutcome::kDone) result.error = reason;
    }
    ReleaseHeap();
    if (result.outcome != StopOutcome::kNotInTime || Microseconds() >= deadline_us) return result;
    WaitMilliseconds(pause_ms);
  }
}

}  // namespace tcmalloc
