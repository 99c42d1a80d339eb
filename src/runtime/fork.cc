// SPDX-License-Identifier: BSD-3-Clause
// Before fork the heap is held (runtime/heap_hold.h). Handlers of other libraries run between ours
// (their prepare handlers behind ours when they registered first, their parent and child handlers
// before ours), may allocate, and pass through the locks. What other threads have outside of locks
// at that moment is on their stacks, and the child never gets it back: a few objects each, or, with
// a thread that is emptying others' caches just then, what was in those.
// What was being given back to the system at that moment is on record, and the child takes it back.
#include "runtime/fork.h"

#include <pthread.h>

#include <atomic>

#include "os/stdio_lock.h"
#include "runtime/background_thread.h"
#include "runtime/current_thread.h"
#include "runtime/heap.h"
#include "runtime/heap_hold.h"
#include "runtime/helper_thread.h"

namespace tcmalloc {
namespace {

// Whoever sets it registers. Nothing else hangs on its order.
constinit std::atomic<bool> handlers_installed{false};

// Our prepare handler is the last that runs, where it could be registered first: nobody else's
// waits behind it for a thread that holds the list of files.
void Prepare() {
  StdioListLock::Lock();
  HoldHeap();
}

void Parent() {
  ReleaseHeap();
  StdioListLock::Unlock();
}

void Child() {
  Heap& heap = GlobalHeap();
  heap.memory.NoteForkedChild();
  // What a signal handler interrupted is in the middle of a change: it is left as it is.
  const bool complete = HoldIsComplete();
  if (complete) heap.page_heap.address_space().RestoreAfterForkInChild();
  if (complete && HoldsHeap()) {
    heap.registry.OrphanOthersInChild(&current_slot);
  } else {
    heap.registry.OrphanOthersLater(&current_slot);
  }
  const bool held = ReleaseHeapInForkedChild();
  if (complete) heap.holes.ReturnOthersInChild();
  ResetBackgroundThreadInChild();
  if (held) CallChildHandlers();
  StdioListLock::Reset();
  // Behind all that its tasks and the C library's function for threads need.
  RestartHelperInChild();
}

}  // namespace

void InstallForkHandlers() {
  if (handlers_installed.exchange(true, std::memory_order_relaxed)) return;
  EnsureHeap();
  pthread_atfork(&Prepare, &Parent, &Child);
}

}  // namespace tcmalloc
