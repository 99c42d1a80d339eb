// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/background_thread.h"

#include "os/detached_thread.h"
#include "runtime/heap.h"

namespace tcmalloc {
namespace {

constexpr int kBusyMs = 100;
constexpr int kIdleMs = 1000;

void* Run(void*) { ProcessBackgroundActions(GlobalHeap()); }

}  // namespace

int DoBackgroundActions(Heap& heap) {
  if (!heap.page_heap.release_pending()) return kIdleMs;
  // Slice by slice: what is due is decided anew for each, so that a program that starts to allocate
  // again keeps the rest.
  while (heap.page_heap.ReleaseDue(PageHeap::kReleaseSlice, true) > Length(0)) {
  }
  return kBusyMs;
}

void ProcessBackgroundActions(Heap& heap) {
  for (;;) SleepMilliseconds(DoBackgroundActions(heap));
}

bool StartBackgroundThread() { return StartDetachedThread(&Run, "tcmalloc"); }

}  // namespace tcmalloc
