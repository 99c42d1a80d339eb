// SPDX-License-Identifier: BSD-3-Clause
// The process's samples: what becomes of allocations that runtime/sampling.h has chosen.
//
// A sampled object has a span of its own, whatever its size: its page has no size class, so that
// freeing it takes the slow path, and freeing any other object costs nothing. Called from the slow
// paths of allocation and free, without locks. Thread safety: any, for different objects.
//
// Cost of a sample: a stack trace, a span, and the lock of the table, twice in its life. Memory: a
// page for a small object, and the record, 8 bytes for each frame and 72 more.
//
// The minimal library has no_profiler.cc for all of it: there nothing is ever sampled.
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "page/span.h"
#include "profile/profile.h"
#include "profile/profile_memory.h"
#include "profile/sample_table.h"

namespace tcmalloc {

struct Heap;

// The object that `span` is, in use from now on, was asked for with `requested` bytes and holds
// `allocated`. Takes the trace of the calling thread's stack. Without memory for the record it is
// no sample.
TC_SLOW_PATH void SampleAllocated(Heap& heap, Span* span, size_t requested, size_t allocated);
// The object of a sample, which was taken out of its span, is freed.
TC_SLOW_PATH void SampleFreed(void* sample);

// When the library is loaded: forks know of the samples' lock from then on.
void PrepareSampler(Heap& heap);

// Mean bytes between samples from now on; 0: no samples of what is allocated from now on. False
// where the library cannot sample.
bool SetSamplePeriod(Heap& heap, size_t period);

SampleTable::Totals GetSampleTotals();

// A profile of the kinds that are made of samples. False when there is no memory.
bool SnapshotSamples(Heap& heap, ProfileKind kind, ProfileMemory* profile);
// What is allocated from now on is kept for a profile of the kind kAllocations. False when that is
// so already.
bool BeginRecordingSamples(Heap& heap);
void EndRecordingSamples();

}  // namespace tcmalloc
