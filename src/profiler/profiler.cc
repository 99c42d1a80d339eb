// SPDX-License-Identifier: BSD-3-Clause
#include "profiler/profiler.h"

#include "profiler/heap_profiler.h"
#include "profiler/named_stack.h"
#include "profiler/profile_files.h"
#include "profiler/sampler.h"
#include "runtime/heap.h"

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
