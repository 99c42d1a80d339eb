// SPDX-License-Identifier: BSD-3-Clause
// Before fork the heap is held (heap/heap_hold.h). Handlers of other libraries may run meanwhile:
// if they registered first, their prepare handlers run after ours, and their parent and child
// handlers before ours. They may allocate, and pass through the locks. Objects that other threads
// have outside of locks at the moment of fork are on their stacks, and the child leaks them: a few
// objects per thread, or the contents of the caches that a thread is emptying. The child takes back
// memory that was being released at that moment, since it is on record.
#include "heap/fork.h"

#include <atomic>

#include "heap/background_thread.h"
#include "heap/current_thread.h"
#include "heap/heap.h"
#include "heap/heap_hold.h"
#include "heap/helper_thread.h"
#include "heap/stray_child.h"
#include "os/fork_handlers.h"
#include "os/spinlock.h"
#include "os/stdio_lock.h"
#include "os/thread_number.h"

namespace tcmalloc {
namespace {

// The thread that sets it registers the handlers. No other data depends on it.
constinit std::atomic<bool> handlers_installed{false};

// The prepare handler. It runs last if it was registered first; then no handler of another library
// runs after it and waits for a thread that waits for the list of files.
void Prepare() {
  // A stray child does not use the heap, nor do its children.
  if (InStrayChild()) return;
  StdioListLock::Lock();
  if (HoldHeap()) thread_numbers.NoteFork();
}

void Parent() {
  if (InStrayChild()) return;
  ReleaseHeap();
  StdioListLock::Unlock();
}

void Child() {
  if (InStrayChild()) return;
  EndStrayWatchInChild();
  const SpinLock::RanksSetAside ranks;
  Heap& heap = GlobalHeap();
  heap.memory.NoteForkedChild();
  // If a signal handler interrupted a critical section, its work is half done, and its data stay as
  // they are.
  const bool complete = HoldIsComplete();
  if (complete) heap.page_heap.address_space().RestoreAfterForkInChild();
  if (complete && HoldsHeap()) {
    heap.registry.OrphanOthersInChild(&current_slot);
  } else {
    heap.registry.OrphanOthersLater(&current_slot);
  }
  // The heap is still held, so that no thread looks for requests before the reset.
  heap.control.ResetInChild();
  const bool held = ReleaseHeapInForkedChild();
  if (complete) heap.holes.ReturnOthersInChild();
  ResetBackgroundThreadInChild();
  if (held) CallChildHandlers();
  StdioListLock::Reset();
  // This is last, since the helper's tasks and the C library's function for threads need all the
  // above.
  RestartHelperInChild();
}

}  // namespace

void InstallForkHandlers() {
  if (handlers_installed.exchange(true, std::memory_order_relaxed)) return;
  EnsureHeap();
  RegisterForkHandlers(&Prepare, &Parent, &Child);
}

}  // namespace tcmalloc
