// SPDX-License-Identifier: BSD-3-Clause
#include "tools/profiler/profiler.h"

#include "config/settings.h"
#include "heap/heap.h"
#include "os/environment.h"
#include "tools/profiler/profiles.h"
#include "tools/profiler/sampler.h"

namespace tcmalloc {

void OnProfilerLoad() {
  if (!RunsWithRaisedPrivileges()) ReportSettingsForFullLibrary();
}
void OnProfilerExit() {}

void SampleAllocated(Heap&, void*, size_t, size_t, void**) {}
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
