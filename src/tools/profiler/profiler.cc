// SPDX-License-Identifier: BSD-3-Clause
#include "tools/profiler/profiler.h"

#include "heap/heap.h"
#include "tools/profiler/heap_profiler.h"
#include "tools/profiler/named_stack.h"
#include "tools/profiler/profile_files.h"
#include "tools/profiler/sampler.h"

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
