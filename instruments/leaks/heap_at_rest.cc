// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/heap_at_rest.h"

#include <algorithm>

#include "os/clock.h"
#include "process/fork.h"

namespace tcmalloc {

// How long the attempts are repeated when a thread does not stop, and the first and the longest
// pause between attempts; the pauses double. During a pause the heap is released and all threads
// run. An attempt stops the others for some 20 ms, so they run most of the time.
constexpr int64_t kStopPatienceMs = 5000;
constexpr int kFirstStopPauseMs = 50;
constexpr int kLongestStopPauseMs = 400;

void WaitMilliseconds(int ms) {
  for (int i = 0; i < ms; ++i) WaitMillisecond();
}

StopResult WithHeapAtRest(Heap& heap, void (*function)(void* context, const WorldStop& world),
                          void* context, bool* stopped) {
  const int64_t deadline_us = Microseconds() + kStopPatienceMs * 1000;
  for (int pause_ms = kFirstStopPauseMs;;
       pause_ms = std::min(2 * pause_ms, int{kLongestStopPauseMs})) {
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
