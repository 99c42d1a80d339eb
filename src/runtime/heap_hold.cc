// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/heap_hold.h"

#include <array>
#include <atomic>

#include "os/log.h"
#include "runtime/heap.h"

namespace tcmalloc {
namespace {

// Those of other folders, in no particular order. Written by who adds (release), read by who holds
// (acquire), who keeps to what there was then: others may be added meanwhile. What it keeps is
// guarded by the registry's lock.
constexpr size_t kMaxHandlers = 8;
using HandlerList = std::array<const ForkHandlers*, kMaxHandlers>;
constinit std::array<std::atomic<const ForkHandlers*>, kMaxHandlers> other_handlers{};
constinit HandlerList prepared{};

void PrepareOthers() {
  for (size_t i = 0; i < kMaxHandlers; ++i) {
    prepared[i] = other_handlers[i].load(std::memory_order_acquire);
    if (prepared[i] != nullptr) prepared[i]->prepare();
  }
}

// Calls f(lock) for every lock of the heap but the registry's, in the order of the ranks.
template <typename F>
void ForEachInnerLock(Heap& heap, F f) {
  heap.central.ForEachLock(f);
  f(heap.holes.lock());
  heap.page_heap.ForEachLock(f);
  f(heap.arena.lock());
  heap.virtual_memory.ForEachLock(f);
  heap.memory.ForEachLock(f);
  f(heap.large_reports.lock());
}

}  // namespace

bool AddForkHandlers(const ForkHandlers* handlers) {
  for (std::atomic<const ForkHandlers*>& place : other_handlers) {
    const ForkHandlers* expected = nullptr;
    if (place.compare_exchange_strong(expected, handlers, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
      return true;
    }
  }
  WriteToStderr("tcmalloc: no room for another part's handlers around fork; a child may hang\n");
  return false;
}

void HoldHeap() {
  Heap& heap = GlobalHeap();
  // The outermost lock first: a second thread waits here until the first is done.
  heap.registry.lock().HoldForFork();
  SpinLock::BeginForkHold();
  ForEachInnerLock(heap, [](SpinLock& lock) { lock.HoldForFork(); });
  PrepareOthers();
}

void ReleaseHeap() {
  Heap& heap = GlobalHeap();
  const HandlerList others = prepared;
  SpinLock::EndForkHold();
  ForEachInnerLock(heap, [](SpinLock& lock) { lock.ReleaseAfterForkInParent(); });
  for (const ForkHandlers* const other : others) {
    if (other != nullptr) other->parent();
  }
  heap.registry.lock().ReleaseAfterForkInParent();
}

bool HoldsHeap() { return GlobalHeap().registry.lock().HeldForForkByThisThread(); }

void ReleaseHeapInForkedChild() {
  Heap& heap = GlobalHeap();
  SpinLock::EndForkHold();
  ForEachInnerLock(heap, [](SpinLock& lock) { lock.ResetAfterForkInChild(); });
  heap.registry.lock().ResetAfterForkInChild();
}

void CallChildHandlers() {
  for (const ForkHandlers* const other : prepared) {
    if (other != nullptr) other->child();
  }
}

}  // namespace tcmalloc
