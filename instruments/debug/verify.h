// SPDX-License-Identifier: BSD-3-Clause
// Checks of the whole heap, when the program asks for them. Damage ends the process with a report.
//
// Other threads may allocate and free meanwhile. The heap is held while a group of spans is read,
// so that their memory stays mapped; it is not held during a report. Cost: a read of every header
// and red zone, and of all freed objects in the queue.
#pragma once

#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {

struct Heap;

// Calls f(argument, object) for every object that the program uses, with the heap held: it must
// neither allocate nor free.
void ForEachLiveObject(Heap& heap, void (*f)(void* argument, const DebugObject& object),
                       void* argument);

// Checks every object in use, and every freed object whose memory is not in use again.
void VerifyHeap(Heap& heap);

// Checks the object at `p`, and that functions of the kind `by` allocated it. Does nothing for
// null.
void VerifyOne(const void* p, AllocatedBy by);

}  // namespace tcmalloc
