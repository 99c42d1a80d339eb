// SPDX-License-Identifier: BSD-3-Clause
#include "leak/heap_at_rest.h"

#include <algorithm>

#include "os/clock.h"
#include "runtime/heap_hold.h"

namespace tcmalloc {
namespace {

// For how long a thread that does not stop is tried again, and the pauses between attempts, which
// grow. An attempt stops the other threads for some 20 ms (os/world_stop.h), so they run most of
// the time.
constexpr int64_t kStopPatienceMs = 5000;
constexpr int kFirstStopPauseMs = 50;
constexpr int kLongestStopPauseMs = 400;

}  // namespace

void WaitMilliseconds(int ms) {
  for (int i = 0; i < ms; ++i) WaitMillisecond();
}

StopResult WithHeapAtRest(Heap& heap, void (*function)(void* context, const WorldStop& world),
                          void* context, bool* stopped) {
  const int64_t deadline_us = Microseconds() + kStopPatienceMs * 1000;
  for (int pause_ms = kFirstStopPauseMs;; pause_ms = std::min(2 * pause_ms, kLongestStopPauseMs)) {
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
