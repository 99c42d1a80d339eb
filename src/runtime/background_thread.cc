// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/background_thread.h"

#include "base/tuning.h"
#include "os/detached_thread.h"
#include "runtime/heap.h"

namespace tcmalloc {
namespace {

void* Run(void*) { ProcessBackgroundActions(GlobalHeap()); }

}  // namespace

int DoBackgroundActions(Heap& heap) {
  if (!heap.page_heap.release_pending()) return kTuning.idle_release.background_idle_ms;
  // Slice by slice: what is due is decided anew for each, so that a program that starts to allocate
  // again keeps the rest.
  while (heap.page_heap.ReleaseDue(PageHeap::kReleaseSlice, true) > Length(0)) {
  }
  return kTuning.idle_release.background_busy_ms;
}

void ProcessBackgroundActions(Heap& heap) {
  for (;;) SleepMilliseconds(DoBackgroundActions(heap));
}

bool StartBackgroundThread() { return StartDetachedThread(&Run, "tcmalloc"); }

}  // namespace tcmalloc
