// SPDX-License-Identifier: BSD-3-Clause
// Guarded samples: every n-th sample is on its own pages between inaccessible pages, and its pages
// become inaccessible for a while after it is freed. So an access after the end of the object,
// before its start, or after its free faults, and a wrong free is noticed
// (docs/guarded-sampling.md). A reader of the core dump finds the records of such objects by the
// introspection root. guard_report.cc prints them in the process, if a setting requests that.
//
// Called from the slow paths of allocation and free (malloc/slow_path.cc), without locks. The page
// map has no class for the pool's pages, so other allocations and frees cost nothing more. A wrong
// free aborts with a report. Thread safety: any.
//
// Cost of a guarded object: a system call to allocate it and two to free it, two stack traces, some
// microseconds in all. Memory: at most kMaxGuardedPageBytes and the records of GuardLayout::kSlots.
//
// In the minimal library and in the debug libraries no_guarded_objects.cc implements these
// functions, and no object is ever guarded.
#pragma once

#include <cstddef>

#include "base/allocation_kind.h"
#include "base/compiler.h"

namespace tcmalloc {

struct Heap;

// Applies the settings. Called when the library is loaded.
void PrepareGuardedSamples(Heap& heap);

// Guards every n-th sample from now on; none if `n` is 0. Objects that are guarded stay guarded.
// Switches sampling on, at its default interval, if it is off. False when there is no memory for
// the pool, or in the minimal library.
bool SetGuardedSample(Heap& heap, size_t n);

// A new guarded object. If `object` is null, this sample is not guarded. The caller stores the
// sample through `sample`, and then calls PublishGuarded.
struct NewGuarded {
  void* object = nullptr;
  void** sample = nullptr;
  void* slot = nullptr;
};
TC_SLOW_PATH NewGuarded TakeGuarded(Heap& heap, size_t size, size_t alignment, AllocationKind kind);
// Returns the object.
TC_SLOW_PATH void* PublishGuarded(Heap& heap, const NewGuarded& taken);

// Calls f(argument, bytes) for every guarded object in use. `f` runs under a lock of the pool.
void ForEachGuarded(Heap& heap, void (*f)(void* argument, size_t bytes), void* argument);

// How the program frees an object.
struct FreeCall {
  AllocationKind kind = AllocationKind::kMalloc;
  bool is_sized = false;
  size_t size = 0;
  size_t alignment = 1;
};

// These require heap.guarded.Contains(p).

// Aborts with a report if the call is wrong.
TC_SLOW_PATH void FreeGuarded(Heap& heap, void* p, const FreeCall& call);
// Returns the size of the object that realloc will replace. Aborts with a report if there is none.
TC_SLOW_PATH size_t GuardedBytesToReallocate(Heap& heap, void* p);
// Returns the requested size of the object in use that starts at `p`; 0 if there is none.
TC_SLOW_PATH size_t GuardedUsableBytes(Heap& heap, const void* p);

}  // namespace tcmalloc
