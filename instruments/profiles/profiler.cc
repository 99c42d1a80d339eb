// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/profiler.h"

#include "instruments/profiles/heap_profiler.h"
#include "instruments/profiles/named_stack.h"
#include "instruments/profiles/profile_files.h"
#include "instruments/profiles/sampler.h"
#include "process/heap.h"

namespace tcmalloc {

void OnProfilerLoad() {
  Heap& heap = ExistingHeap();
  PrepareSampler(heap);
  heap.sampling.SetSeed(heap.settings.sample_seed);
  if (heap.settings.sample_period_bytes > 0) {
    SetSamplePeriod(heap, heap.settings.sample_period_bytes);
  }
  heap.large_reports.SetStackWriter(&WriteNamedStack);
  StartProfileFiles(heap);
  StartHeapProfilerBySettings(heap.settings);
}

void OnProfilerExit() {
  WriteLastProfileFiles();
  DumpLastHeapProfile();
}

}  // namespace tcmalloc
