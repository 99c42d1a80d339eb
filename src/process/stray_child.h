// SPDX-License-Identifier: BSD-3-Clause
// A stray child is a process that another process with threads has made without the handlers of
// fork (process/fork.h): by the system calls clone and clone3, or by _Fork. It has a copy of the
// parent's memory, and one thread. The parent's other threads may have been anywhere: locks of the
// heap may be held for ever, and what they guard half changed.
//
// A stray child leaves the heap as it is. Allocations that do not succeed on the fast path come
// from the C library's malloc, and frees that do not succeed there are dropped if the object is the
// heap's. Such a child usually executes another program soon.
//
// Why that is safe.
//   * No lock is taken. The fast path takes none, and each slow path of malloc/slow_path.cc that
//     would take one calls InStrayChild first, as do the debug libraries
//     (instruments/debug/allocation.cc).
//   * The fast path accesses only the thread's own slot and its own cache, which no other thread of
//     the child has. A thread of the parent that was taking the cache had replaced the pointer in
//     the slot by that to kEmptyBins before it touched the cache (thread_cache/thread_slot.h): in
//     the child the pointer stays so, and each call takes the slow path.
//   * No thread holds a lock of the C library's malloc, since the program's threads use this
//     allocator. Where a library is bound to the C library's malloc, the child is as it would be
//     without this library.
//   * Objects of the heap keep their memory, as nothing is released. A pointer is the heap's if the
//     page map has it, which is read without a lock: entries of pages with objects do not change.
//   * Threads of the child get no cache, and do the same.
//
// How the library notices. A word in a page that the kernel clears in children (os/thread_number.h)
// is 1. The page is made when the program creates its first thread, since a process with one thread
// has no thread that could hold a lock. In a child of fork the word is 0, too. There the thread
// that holds the heap for the fork is in no stray child, and ends the watch: in the handler of the
// child, or earlier, if a handler of another library creates a thread. The child's next thread
// begins a new watch. If a signal handler forked and its hold got no lock (HoldHeap), the child is
// a stray one, since its heap cannot be trusted.
//
// Not covered, so that a child may wait without end: kernels without such pages (before Linux
// 4.14); static programs, and C libraries without a malloc of their own; processes whose threads
// were not created by pthread_create; and in a stray child the functions that report or set
// anything (malloc_trim, mallinfo, MallocExtension).
//
// Cost: two loads in a slow path, of words that nobody writes. The fast path has none.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"

namespace tcmalloc {

// Points to the page's word, or to a constant that is not 0. Release and acquire: the word is 1
// before the pointer is stored.
extern constinit std::atomic<const std::atomic<uint32_t>*> stray_witness;

// The rest of InStrayChild, in a process that was made during a watch.
TC_SLOW_PATH bool InStrayChildSlow();

// True if this process is a stray child.
inline bool InStrayChild() {
  const std::atomic<uint32_t>* const word = stray_witness.load(std::memory_order_acquire);
  return __builtin_expect(word->load(std::memory_order_relaxed) == 0, false) && InStrayChildSlow();
}

// Called before the program creates a thread. After the first call it costs some loads. Keeps
// errno.
void WatchForStrayChildren();
// Called in a child of fork by the thread that holds the heap.
void EndStrayWatchInChild();

}  // namespace tcmalloc
