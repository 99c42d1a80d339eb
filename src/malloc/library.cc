// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/guard/guarded_objects.h"
#include "instruments/pressure/pressure.h"
#include "instruments/profiles/process_profiles.h"
#include "malloc/slow_path.h"
#include "os/c_library.h"
#include "os/log.h"
#include "os/signals.h"
#include "process/background_thread.h"
#include "process/fork.h"
#include "process/heap.h"
#include "process/helper_thread.h"
#include "stats/stats.h"

namespace tcmalloc {
namespace {

void WriteLastReports() {
  OnProfilerExit();
  if (!HeapExists()) return;
  Heap& heap = GlobalHeap();
  if (heap.settings.malloc_stats > 0) PrintStatsWithBanner(heap, heap.settings.malloc_stats);
}

constexpr HelperTask kReportAtTerm = {.interval_ms = 0,
                                      .signals = SignalBit(kTerminationSignal),
                                      .run = [](int) { WriteLastReports(); }};

void PrepareReportAtTerm() {
  if (!HandleSignalInHelper(kTerminationSignal)) {
    WriteToStderr(
        "tcmalloc: TCMALLOC_REPORT_AT_TERM: the process already handles or ignores SIGTERM; no "
        "reports are written on it\n");
  } else if (!AddHelperTask(&kReportAtTerm)) {
    WriteToStderr(
        "tcmalloc: TCMALLOC_REPORT_AT_TERM: cannot start a thread; no reports are written on "
        "SIGTERM\n");
  }
}

}  // namespace

void OnLibraryLoad() {
  CLibraryMalloc::Resolve();
  KeepModuleLoaded();
  InstallForkHandlers();
  NoteMainThread();
  OnProfilerLoad();
  const Settings& settings = GlobalHeap().settings;
  // The setting is tested here, so that the pages of code of a disabled tool are not touched.
  if (settings.guarded_sample > 0 || settings.guarded_report) PrepareGuardedSamples(GlobalHeap());
  // This precedes the start of the listener to memory pressure, which takes over idle release.
  if (settings.background != BackgroundMode::kNever && !settings.disable_memory_release) {
    AllowBackgroundThread();
  }
  OnPressureLoad();
  if (settings.stats_every[0] != 0) StartStatsSeries(GlobalHeap());
  if (settings.report_at_term) PrepareReportAtTerm();
  if (settings.background == BackgroundMode::kAtLoad && !StartBackgroundThread()) {
    WriteToStderr("tcmalloc: TCMALLOC_BACKGROUND is ignored: no thread could be started\n");
  }
}

void OnProcessExit() {
  // The reports take locks.
  if (InStrayChild()) return;
  AwaitEndBySignal();
  WriteLastReports();
}

}  // namespace tcmalloc
