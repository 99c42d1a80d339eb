// SPDX-License-Identifier: BSD-3-Clause
// Before fork the heap is held (heap/heap_hold.h). Handlers of other libraries run between ours
// (their prepare handlers after ours when they registered first, their parent and child handlers
// before ours), may allocate, and pass through the locks. Objects that other threads have outside
// of locks at that moment are on their stacks, and the child leaks them: a few objects each, or,
// with a thread that is emptying others' caches, the contents of those. Memory that was being
// released at that moment is on record, and the child takes it back.
#include "heap/fork.h"

#include <pthread.h>

#include <atomic>

#include "heap/background_thread.h"
#include "heap/current_thread.h"
#include "heap/heap.h"
#include "heap/heap_hold.h"
#include "heap/helper_thread.h"
#include "os/spinlock.h"
#include "os/stdio_lock.h"
#include "os/thread_number.h"

namespace tcmalloc {
namespace {

// The thread that sets it registers the handlers. No other data depends on it.
constinit std::atomic<bool> handlers_installed{false};

// Our prepare handler runs last, if it could be registered first: then no other library's handler
// waits after it for a thread that holds the list of files.
void Prepare() {
  StdioListLock::Lock();
  if (HoldHeap()) thread_numbers.NoteFork();
}

void Parent() {
  ReleaseHeap();
  StdioListLock::Unlock();
}

void Child() {
  const SpinLock::RanksSetAside ranks;
  Heap& heap = GlobalHeap();
  heap.memory.NoteForkedChild();
  // A section that a signal handler interrupted is half done: leave its data as it is.
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
  // After everything that its tasks and the C library's function for threads need.
  RestartHelperInChild();
}

}  // namespace

void InstallForkHandlers() {
  if (handlers_installed.exchange(true, std::memory_order_relaxed)) return;
  EnsureHeap();
  pthread_atfork(&Prepare, &Parent, &Child);
}

}  // namespace tcmalloc
