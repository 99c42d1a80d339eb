// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/cleanups.h"

#include <atomic>
#include <new>

#include "process/heap.h"

namespace tcmalloc {
namespace {

struct Cleanup {
  Cleanup* next = nullptr;
  void (*function)() = nullptr;
};

// A list with the last function first. It grows at its front (release); RunCleanups takes all of it
// (acquire).
constinit std::atomic<Cleanup*> cleanups{nullptr};

}  // namespace

void AddCleanup(void (*function)()) {
  void* const memory = ExistingHeap().arena.Allocate(sizeof(Cleanup));
  if (memory == nullptr) return;
  auto* const fresh = new (memory) Cleanup;
  fresh->function = function;
  Cleanup* first = cleanups.load(std::memory_order_relaxed);
  do {
    fresh->next = first;
  } while (!cleanups.compare_exchange_weak(first, fresh, std::memory_order_release,
                                           std::memory_order_relaxed));
}

void RunCleanups() {
  Cleanup* cleanup = cleanups.exchange(nullptr, std::memory_order_acq_rel);
  while (cleanup != nullptr) {
    Cleanup* const next = cleanup->next;
    cleanup->function();
    GlobalHeap().arena.Free(cleanup, sizeof(Cleanup));
    cleanup = next;
  }
}

}  // namespace tcmalloc
