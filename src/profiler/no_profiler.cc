// SPDX-License-Identifier: BSD-3-Clause
#include "os/environment.h"
#include "profiler/profiler.h"
#include "profiler/profiles.h"
#include "profiler/sampler.h"
#include "runtime/heap.h"
#include "runtime/settings.h"

namespace tcmalloc {

void OnProfilerLoad() {
  if (!RunsWithRaisedPrivileges()) ReportSettingsForFullLibrary();
}
void OnProfilerExit() {}

void SampleAllocated(Heap&, Span*, size_t, size_t) {}
void SampleFreed(void*) {}
void PrepareSampler(Heap&) {}
bool SetSamplePeriod(Heap&, size_t period) { return period == 0; }
SampleTable::Totals GetSampleTotals() { return {}; }
bool SnapshotSamples(Heap&, ProfileKind, ProfileMemory*) { return false; }
bool BeginRecordingSamples(Heap&) { return false; }
void EndRecordingSamples() {}

void (*const kOnHeapBuilt)(Heap&) = nullptr;
bool TakeProfile(Heap&, ProfileKind, ProfileMemory*) { return false; }
bool WriteTextProfile(Heap&, ProfileKind, ByteSink::Function, void*) { return false; }

}  // namespace tcmalloc
