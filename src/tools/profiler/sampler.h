// SPDX-License-Identifier: BSD-3-Clause
// The process's samples: records the allocations that heap/sampling.h has chosen.
//
// A sampled object has a span of its own, whatever its size. Its page has no size class, so its
// free takes the slow path, and freeing any other object costs nothing. Called from the slow paths
// of allocation and free, without locks. Thread safety: any thread, for different objects.
//
// Cost of a sample: a stack trace, a span, and the lock of the table, twice. Memory: a page for a
// small object; a record of 80 bytes and 8 for each frame.
//
// In the minimal library tools/minimal/profiler.cc implements it: nothing is ever sampled.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/compiler.h"
#include "page/span.h"
#include "tools/profile/profile.h"
#include "tools/profile/profile_memory.h"
#include "tools/profile/sample_table.h"

namespace tcmalloc {

struct Heap;

// Records the new object in `span` as a sample: `requested` bytes asked for, `allocated` usable.
// Takes the trace of the calling thread's stack. Without memory for the record it is no sample.
TC_SLOW_PATH void SampleAllocated(Heap& heap, Span* span, size_t requested, size_t allocated);
// The object of `sample` is freed. The span does not refer to the sample any more.
TC_SLOW_PATH void SampleFreed(void* sample);

// Null until there is a table: it is built when the library is loaded, or at the first use before
// that.
extern std::atomic<SampleTable*> existing_sample_table;

// When the library is loaded: registers the fork handlers of the samples' lock.
void PrepareSampler(Heap& heap);

// Sets the sampling interval for later allocations; 0: no samples. False where the library cannot
// sample.
bool SetSamplePeriod(Heap& heap, size_t period);

SampleTable::Totals GetSampleTotals();

// Takes a profile of any kind but kGrowth. False when there is no memory.
bool SnapshotSamples(Heap& heap, ProfileKind kind, ProfileMemory* profile);
// Keeps samples from now on, for a profile of the kind kAllocations. False when a recording runs
// already.
bool BeginRecordingSamples(Heap& heap);
void EndRecordingSamples();

}  // namespace tcmalloc
