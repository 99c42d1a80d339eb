// SPDX-License-Identifier: BSD-3-Clause
#include "config/settings.h"
#include "instruments/profiles/profiles.h"
#include "instruments/profiles/sampler.h"
#include "os/environment.h"
#include "process/heap.h"

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
