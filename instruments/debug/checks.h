// SPDX-License-Identifier: BSD-3-Clause
// Finds the headers of objects, and checks objects: one, or all of the heap when the program asks
// for that. Damage and misuse end the process with a report.
#pragma once

#include <cstddef>

#include "instruments/red_zones/debug_object.h"

namespace tcmalloc {

// An object of the underlying heap, in use or not.
struct RawMemory {
  char* start = nullptr;  // null if there is none
  size_t bytes = 0;
};

// Returns the object of the heap that contains `p`; an empty result if `p` is in no span in use.
RawMemory RawMemoryAt(const void* p);

// Returns the live object at `p`. Null if `p` is in no span in use: then the ordinary functions
// handle it. If no live object begins at `p`, reports that and ends the process; with `call` null
// it does so only for a freed object, and otherwise returns null.
DebugObject* FindObject(const void* p, const char* call);

// The first byte that does not have the expected pattern.
struct Damage {
  bool found = false;
  ptrdiff_t offset = 0;  // from the start of the object
  size_t bytes = 0;      // from the first to the last damaged byte of the zone
  unsigned char actual = 0;
  unsigned char expected = 0;
};

// Finds the first damage of the red zones of a live object.
Damage DamageAround(const DebugObject& object);
// Finds the first write to a freed object, or damage of its red zones.
Damage DamageOfFreed(const DebugObject& object);

// These functions report damage and end the process. `call` is the name of the function that the
// program called.
void CheckRedZones(const DebugObject& object, const char* call);
void CheckFreed(const DebugObject& object);

struct Heap;

// Checks of the whole heap. Other threads may allocate and free meanwhile. The heap is held while a
// group of spans is read, so that their memory stays mapped; it is not held during a report. Cost:
// a read of every header and red zone, and of all freed objects in the queue.

// Calls f(argument, object) for every object that the program uses, with the heap held: it must
// neither allocate nor free.
void ForEachLiveObject(Heap& heap, void (*f)(void* argument, const DebugObject& object),
                       void* argument);

// Checks every object in use, and every freed object whose memory is not in use again.
void VerifyHeap(Heap& heap);

// Checks the object at `p`, and that functions of the kind `by` allocated it. Does nothing for
// null.
void VerifyOne(const void* p, AllocatedBy by);

// Reports of misuse: one line that says what is wrong with which pointer, then the known ones of
// the stacks of the allocation, the free and the call. Then the process aborts. Writes to stderr by
// system calls, and takes memory from the OS only. No lock may be held.
//
// `call` is the name of the function that the program called; null if a later check found the
// damage.

// Reports a free, a realloc or a similar call for an object that is not kLive.
[[noreturn]] void ReportSecondFree(const DebugObject& object, const char* call);
// As ReportSecondFree, for a freed object in protected memory, whose header cannot be read
// directly; `raw` is its raw memory.
[[noreturn]] void ReportFencedFree(const char* raw, const char* p, const char* call);
[[noreturn]] void ReportMismatch(const DebugObject& object, const char* call);
[[noreturn]] void ReportWrongSize(const DebugObject& object, const char* call, size_t size);
// `alignment`: null when the free passes none.
[[noreturn]] void ReportWrongAlignment(const DebugObject& object, const char* call,
                                       const size_t* alignment);
[[noreturn]] void ReportDamage(const DebugObject& object, const char* call, const Damage& damage);
[[noreturn]] void ReportDamagedHeader(const DebugObject& object, const char* call);
[[noreturn]] void ReportWriteAfterFree(const DebugObject& object, const Damage& damage);
// `p` lies in the raw memory of `object`, not at its start.
[[noreturn]] void ReportInterior(const DebugObject& object, const void* p, const char* call);
// Reports a pointer into a span in use where no object has a header.
[[noreturn]] void ReportNothingThere(const void* p, const char* call);

}  // namespace tcmalloc
