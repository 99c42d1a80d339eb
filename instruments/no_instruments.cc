// SPDX-License-Identifier: BSD-3-Clause
// What the minimal libraries have in the place of the profilers, stack traces and memory pressure:
// functions that do nothing, or refuse. Those of guarded samples, which the debug libraries lack as
// well, are in instruments/guard/no_guarded_objects.cc.
#include <cerrno>

#include "base/text.h"
#include "config/settings.h"
#include "instruments/introspection/root.h"
#include "instruments/pressure/pressure.h"
#include "instruments/profiles/process_profiles.h"
#include "instruments/profiles/sampler.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/log.h"
#include "os/process.h"
#include "os/stack_trace.h"
#include "process/heap.h"

namespace tcmalloc {

// Profiles.
void OnProfilerLoad() {
  if (!RunsWithRaisedPrivileges()) ReportSettingsForFullLibrary();
}
void OnProfilerExit() {}
const bool kHasProfiles = false;
bool TakeProfile(Heap&, ProfileKind, ProfileMemory*) { return false; }
bool WriteTextProfile(Heap&, ProfileKind, ByteSink::Function, void*) { return false; }
void (*const kOnHeapBuilt)(Heap&) = nullptr;
constinit SampleLayout sample_layout = {};

void SampleAllocated(Heap&, void*, size_t, size_t, void**) {}
void SampleFreed(void*) {}
void PrepareSampler(Heap&) {}
bool SetSamplePeriod(Heap&, size_t period) { return period == 0; }
SampleTable::Totals GetSampleTotals() { return {}; }
bool SnapshotSamples(Heap&, ProfileKind, ProfileMemory*) { return false; }
bool BeginRecordingSamples(Heap&) { return false; }
void EndRecordingSamples() {}
void ProfileMemory::Free() {}

// Stack traces.
void SetStackTraceMethod(StackTraceMethod) {}
size_t GetStackTrace(uintptr_t*, size_t, size_t) { return 0; }
size_t GetStackFrames(uintptr_t*, int*, size_t, size_t, const void*) { return 0; }
size_t GetCallerStackTrace(uintptr_t*, size_t, size_t, AllocatorFrames, size_t, RuleCache) {
  return 0;
}

void WriteStackToStderr(const uintptr_t* frames, size_t depth, bool, VirtualMemory&) {
  for (size_t i = 0; i < depth; ++i) {
    char buffer[64];
    TextWriter line(buffer, sizeof(buffer));
    line.Text("    ").Hex(frames[i]).Text("\n");
    WriteToStderr(line.text());
  }
}

// Memory pressure.
void OnPressureLoad() {}
void ReviveAfterFork() {}
int PressureFd(Heap&) { return -ENOTSUP; }
int HandlePressure(Heap&) { return 0; }
void AddPressureListener(PressureListener*) {}
void RemovePressureListener(PressureListener*) {}

}  // namespace tcmalloc
