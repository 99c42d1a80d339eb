// SPDX-License-Identifier: BSD-3-Clause
// Runs a function while the heap is at rest: all its locks are held and the other threads are
// stopped. If the OS does not allow that threads are stopped, they continue, but can neither
// allocate nor free.
//
// If a thread does not stop in time, the attempt is repeated for some seconds. Between attempts the
// heap is released and all threads run. Thread safety: one call at a time, by a thread that holds
// no lock. Cost: see instruments/world_stop/world_stop.h.
#pragma once

#include "instruments/world_stop/world_stop.h"
#include "process/heap.h"

namespace tcmalloc {

// Runs function(context, world). `*stopped` is true if the other threads were stopped, not only
// locked out. If the result is kNotInTime, the function did not run. With kDone and !*stopped, the
// result's error says why the threads could not be stopped.
StopResult WithHeapAtRest(Heap& heap, void (*function)(void* context, const WorldStop& world),
                          void* context, bool* stopped);

// Waits `ms` milliseconds. It is not a cancellation point.
void WaitMilliseconds(int ms);

}  // namespace tcmalloc
