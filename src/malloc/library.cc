// SPDX-License-Identifier: BSD-3-Clause
#include "malloc/library.h"

#include "base/text_writer.h"
#include "os/c_library.h"
#include "os/log.h"
#include "os/stack_trace.h"
#include "pressure/pressure.h"
#include "profiler/profiler.h"
#include "runtime/background_thread.h"
#include "runtime/fork.h"
#include "runtime/heap.h"
#include "runtime/stats.h"

namespace tcmalloc {
namespace {

void WriteStackTraceMethod() {
  char buffer[128];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: stack traces: ").Text(StackTraceMethodName()).Text("\n");
  WriteToStderr(line.text());
}

}  // namespace

void OnLibraryLoad() {
  CLibraryMalloc::Resolve();
  InstallForkHandlers();
  if (GlobalHeap().settings.stack_trace_method_verbose) WriteStackTraceMethod();
  OnProfilerLoad();
  OnPressureLoad();
  if (GlobalHeap().settings.background && !StartBackgroundThread()) {
    WriteToStderr("tcmalloc: TCMALLOC_BACKGROUND is ignored: no thread could be started\n");
  }
}

void OnProcessExit() {
  OnProfilerExit();
  if (!HeapExists()) return;
  Heap& heap = GlobalHeap();
  if (heap.settings.malloc_stats > 0)
    PrintStats(heap, static_cast<int>(heap.settings.malloc_stats));
}

}  // namespace tcmalloc
