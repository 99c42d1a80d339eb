// SPDX-License-Identifier: BSD-3-Clause
// Runs a function while the heap is at rest: all its locks are held and the other threads are
// stopped. Where the system does not let threads be stopped, they run on, but can neither allocate
// nor free.
//
// A thread that does not stop in time is tried again for some seconds, with the heap released and
// all threads running between attempts. Thread safety: one call at a time, by a thread that holds
// no lock. Cost: see tools/world_stop/world_stop.h.
#pragma once

#include "heap/heap.h"
#include "tools/world_stop/world_stop.h"

namespace tcmalloc {

// Runs function(context, world). `*stopped`: the other threads were stopped, not only locked out.
// With kNotInTime nothing was run. With kDone and !*stopped, the result's error says why the
// threads could not be stopped.
StopResult WithHeapAtRest(Heap& heap, void (*function)(void* context, const WorldStop& world),
                          void* context, bool* stopped);

// Waits that many milliseconds. Not a cancellation point.
void WaitMilliseconds(int ms);

}  // namespace tcmalloc
