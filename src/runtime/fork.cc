// SPDX-License-Identifier: BSD-3-Clause
// Before fork all locks are taken, in the order of their ranks, so that no other thread is in the
// middle of anything that a lock protects. They are marked as held for fork: handlers of other
// libraries run between ours (their prepare handlers behind ours when they registered first, their
// parent and child handlers before ours), may allocate, and pass through. What other threads have
// outside the locks at that moment is on their stacks, and the child never gets it back: a few
// objects each, or, with a thread that is emptying others' caches just then, what was in those.
// What was being given back to the system at that moment is on record, and the child takes it back.
#include "runtime/fork.h"

#include <pthread.h>

#include <array>
#include <atomic>

#include "runtime/current_thread.h"
#include "runtime/heap.h"

namespace tcmalloc {
namespace {

// Whoever sets it registers. Nothing else hangs on its order.
constinit std::atomic<bool> handlers_installed{false};

// Those of other folders, in no particular order. Written by who adds (release), read by who forks
// (acquire), who keeps to what there was when it prepared: others may be added meanwhile. What it
// keeps is guarded by the registry's lock.
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

void Prepare() {
  Heap& heap = GlobalHeap();
  // The outermost lock first: a second thread that forks waits here until the first is done.
  heap.registry.lock().HoldForFork();
  SpinLock::BeginForkHold();
  ForEachInnerLock(heap, [](SpinLock& lock) { lock.HoldForFork(); });
  PrepareOthers();
}

void Parent() {
  Heap& heap = GlobalHeap();
  const HandlerList others = prepared;
  SpinLock::EndForkHold();
  ForEachInnerLock(heap, [](SpinLock& lock) { lock.ReleaseAfterForkInParent(); });
  for (const ForkHandlers* const other : others) {
    if (other != nullptr) other->parent();
  }
  heap.registry.lock().ReleaseAfterForkInParent();
}

void Child() {
  Heap& heap = GlobalHeap();
  heap.memory.NoteForkedChild();
  heap.page_heap.RestoreAfterForkInChild();
  heap.registry.OrphanOthersInChild(current_slot.cache);
  SpinLock::EndForkHold();
  ForEachInnerLock(heap, [](SpinLock& lock) { lock.ResetAfterForkInChild(); });
  heap.registry.lock().ResetAfterForkInChild();
  heap.holes.ReturnOthersInChild();
  for (const ForkHandlers* const other : prepared) {
    if (other != nullptr) other->child();
  }
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
  return false;
}

void InstallForkHandlers() {
  if (handlers_installed.exchange(true, std::memory_order_relaxed)) return;
  EnsureHeap();
  pthread_atfork(&Prepare, &Parent, &Child);
}

}  // namespace tcmalloc
