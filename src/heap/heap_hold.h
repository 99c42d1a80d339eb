// SPDX-License-Identifier: BSD-3-Clause
// All locks of the heap, and of the folders above it, held by one thread: then no other thread is
// in the middle of anything that a lock protects. For fork, and for who looks at all of the heap
// while the other threads stand still.
//
// The locks are taken in the order of their ranks and marked as held for fork (see SpinLock): the
// holder passes through them, so that it may call what takes a lock, which also makes it safe for
// handlers of other libraries around fork to allocate. What other threads have outside of locks is
// where it was: in access sections of their caches, in registers, on their stacks.
//
// A signal handler that forks may have interrupted its own thread in the middle of the heap, or of
// another hold: see SpinLock. It holds what it can. What the interrupted section works on stays
// locked, and the section goes on when the handler returns, in the parent and in the child. Such a
// child may do what POSIX allows in it; if its parent had one thread, it may go on like any other.
//
// Two holders, such as a thread that forks while another one checks for leaks, wait for one
// another: the registry's lock is the first to be taken and the last to be released.
#pragma once

namespace tcmalloc {

// What folders above have done when the heap is held and released, for the locks of their own,
// which are of higher ranks than the heap's: `prepare` when the heap's locks are held, `parent`
// and, instead of it in a forked child, `child` when they are held no more; as SpinLock's functions
// for it.
struct ForkHandlers {
  void (*prepare)();
  void (*parent)();
  void (*child)();
};

// From the next time on, for good. `handlers` lives as long as the process. False, and the process
// is told on stderr, when there are too many. Thread safety: any.
bool AddForkHandlers(const ForkHandlers* handlers);

// Requires: there is a heap.
void HoldHeap();
// All of the heap is held, and in the middle of nothing. By the thread that holds it.
bool HoldIsComplete();
// By the thread that holds it.
void ReleaseHeap();
// True when the calling thread holds it: in a handler of some library around fork, or in a check.
bool HoldsHeap();

// In a child that was forked while the parent's thread held the heap, instead of ReleaseHeap: first
// the locks of the heap, then, where that returned true, the `child` functions. False when the hold
// held nothing.
bool ReleaseHeapInForkedChild();
void CallChildHandlers();

}  // namespace tcmalloc
