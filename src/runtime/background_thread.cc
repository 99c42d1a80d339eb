// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/background_thread.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "runtime/heap.h"

namespace tcmalloc {
namespace {

constexpr int kBusyMs = 100;
constexpr int kIdleMs = 1000;

// Larger than the smallest that the C library allows, which thread-local storage counts against.
constexpr size_t kStackBytes = size_t{256} << 10;

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
  for (;;) {
    const int ms = DoBackgroundActions(heap);
    const timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

bool StartBackgroundThread() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // Inherited: the thread never runs with one open.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, &Run, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (started) pthread_setname_np(thread, "tcmalloc");
  return started;
}

}  // namespace tcmalloc
