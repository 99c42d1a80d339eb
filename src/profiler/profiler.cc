// SPDX-License-Identifier: BSD-3-Clause
#include "profiler/profiler.h"

#include "profiler/heap_profiler.h"
#include "runtime/heap.h"

namespace tcmalloc {

void OnProfilerLoad() { StartHeapProfilerBySettings(ExistingHeap().settings); }

void OnProfilerExit() { DumpLastHeapProfile(); }

}  // namespace tcmalloc
