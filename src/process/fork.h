// SPDX-License-Identifier: BSD-3-Clause
// fork() in a program with threads: the child finds a heap in which no lock is held and no
// operation is half done. And children that were made without this: stray children.
//
// Holds all locks of the heap, and of the folders above it, in one thread. Then no other thread is
// in the middle of a change that a lock protects. Used by fork, and by the leak checker, which
// reads the whole heap while the other threads are stopped.
//
// In the order of the ranks, each lock is taken and marked as held for fork: those of each shard,
// and those that exist once. The holder passes through all of them: it may call functions that take
// a lock, and handlers of other libraries around fork may allocate. State of other threads that no
// lock guards may be half changed: in access sections of their caches, in registers, on their
// stacks.
//
// A signal handler that forks may have interrupted its own thread in a critical section of the
// heap, or during another hold: see SpinLock. It holds only the locks that it can take. The data of
// the interrupted section stays locked, and the section continues when the handler returns, in the
// parent and in the child. Such a child may do what POSIX allows there; if its parent had one
// thread, it may continue normally.
//
// Such a handler waits for locks of the C library and of the program, in fork, before its hold. A
// thread that has such a lock and waits for the heap could wait for the interrupted section: it
// sets a deadline (TryHoldHeap).
//
// Two holders, for example a thread that forks and one that checks for leaks, wait for one
// another: the registry's lock is the first to be taken and the last to be released.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/compiler.h"

namespace tcmalloc {

// Called when the heap is held and released, for the locks of folders above, which have higher
// ranks than the heap's. `prepare`: the heap's locks are held. `parent`, or `child` in a forked
// child: they are no longer held. They do for locks of other folders what SpinLock's functions for
// fork do. A thread that holds one of these locks takes no other (kFirstLeaf).
struct ForkHandlers {
  void (*prepare)();
  void (*parent)();
  void (*child)();
};

// Adds handlers for all later holds. `handlers` lives as long as the process. If there are too
// many, writes a line to stderr and returns false. Thread safety: any.
bool AddForkHandlers(const ForkHandlers* handlers);

// Requires: there is a heap. False if it could hold nothing; the caller calls ReleaseHeap
// nevertheless.
bool HoldHeap();
// As HoldHeap, but waits for other threads no longer than until the deadline, a time of
// CoarseMilliseconds. If it misses the deadline, it holds nothing and returns nothing, and the
// caller does not call ReleaseHeap.
std::optional<bool> TryHoldHeap(int64_t deadline_ms);
// A hold that holds nothing. The caller calls ReleaseHeap.
void HoldNothing();
// True if the calling thread holds all locks of the heap, and no operation is half done. Requires:
// it holds the heap.
bool HoldIsComplete();
// The thread that holds the heap calls it.
void ReleaseHeap();
// True when the calling thread holds the heap: in another library's handler around fork, or in a
// leak check.
bool HoldsHeap();

// A child that was forked while this thread held the heap calls these two instead of ReleaseHeap.
// The first releases the locks of the heap, and returns false if the hold held nothing. If it
// returns true, call the second, which runs the `child` functions.
bool ReleaseHeapInForkedChild();
void CallChildHandlers();

// Registers the handlers at the first call; does nothing after that. Thread safety: any. May
// allocate.
void InstallForkHandlers();

// A stray child is a process that another process with threads has made without the handlers of
// fork: by the system calls clone and clone3, or by _Fork. It has a copy of the
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
// allocator. If another library is bound to the C library's malloc, its calls in the child have the
// same effect as without this library.
//   * Objects of the heap keep their memory, as nothing is released. A pointer is the heap's if the
//     page map has it, which is read without a lock: entries of pages with objects do not change.
//   * Threads of the child get no cache, and do the same.
//
// How the library notices. A word in a page that the kernel clears in children (os/process.h) is 1.
// The page is made when the program creates its first thread, since a process with one thread has
// no thread that could hold a lock. In a child of fork the word is 0, too. There the thread that
// holds the heap for the fork is in no stray child, and ends the watch: in the handler of the
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
