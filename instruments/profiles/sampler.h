// SPDX-License-Identifier: BSD-3-Clause
// The process's samples: records the allocations that process/sampling.h has chosen, and shows them
// to tracers outside the process (ProbeAllocation).
//
// A sampled object of any size has its own span, or is guarded (instruments/guard/). Its page has
// no size class, so its free takes the slow path, and other frees cost nothing more. Called from
// the slow paths of allocation and free, without locks. Thread safety: any thread, for different
// objects.
//
// Cost of a sample: a stack trace, a span, and the lock of the table, twice. Memory: a page for a
// small object; a record of 80 bytes and 8 for each frame.
//
// In the minimal library instruments/no_instruments.cc implements these functions; no allocation is
// sampled.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/units.h"
#include "instruments/profiles/profile.h"
#include "instruments/profiles/sample_table.h"

namespace tcmalloc {

struct Heap;

// The sampling interval, the mean number of bytes between samples, of profiles requested without
// TCMALLOC_SAMPLE_PARAMETER: some hundred samples a second in a program that allocates much.
inline constexpr uint64_t kDefaultSamplePeriod = 512_KiB;

// Records the new object, with `requested` bytes requested and `allocated` bytes usable, as a
// sample. Takes the trace of the calling thread's stack. Stores the record in `*place`, which
// belongs to the object; if there is no memory for a record, the object is not a sample.
TC_SLOW_PATH void SampleAllocated(Heap& heap, void* object, size_t requested, size_t allocated,
                                  void** place);
// Called when the object of `sample` is freed and its place does not refer to the sample any more.
TC_SLOW_PATH void SampleFreed(void* sample);

// Null until there is a table: it is built when the library is loaded, or at the first use before
// that.
extern std::atomic<SampleTable*> existing_sample_table;

// Registers the fork handlers of the samples' lock. Called when the library is loaded.
void PrepareSampler(Heap& heap);

// Sets the sampling interval for later allocations; 0 for no samples. False if the library cannot
// sample.
bool SetSamplePeriod(Heap& heap, size_t period);

SampleTable::Totals GetSampleTotals();

// Takes a profile of any kind but kGrowth. False when there is no memory.
bool SnapshotSamples(Heap& heap, ProfileKind kind, ProfileMemory* profile);
// Keeps samples from now on, for a profile of the kind kAllocations. False when a recording runs
// already.
bool BeginRecordingSamples(Heap& heap);
void EndRecordingSamples();

// Probes at which a tracer outside the process can stop the process or run a kernel program:
//
//   otel_memory:alloc(object, bytes, weight)   a sampled allocation, and the bytes it represents
//   otel_memory:free(object)                   a sampled object is freed
//
// Names and arguments are those that open-telemetry's memory profiler expects. A probe is an
// instruction that does nothing, a note in the ELF file that has its address, and a count of
// attached tracers. The arguments are computed only while the count is not 0. Every build of the
// full library has them.

void ProbeAllocation(const void* object, size_t bytes, size_t weight);
void ProbeFree(const void* object);

}  // namespace tcmalloc
