// SPDX-License-Identifier: BSD-3-Clause
// Holds all locks of the heap, and of the folders above it, in one thread. Then no other thread is
// in the middle of anything that a lock protects. For fork, and for the leak checker, which reads
// the whole heap while the other threads are stopped.
//
// In the order of the ranks, each SpinLock is taken and marked as held for fork, and each GatedLock
// is read until it is free, with the gate closed. The holder passes through all of them: it may
// call functions that take a lock, and handlers of other libraries around fork may allocate. State
// of other threads outside of locks stays as it is: in access sections of their caches, in
// registers, on their stacks.
//
// A signal handler that forks may have interrupted its own thread in the middle of the heap, or of
// another hold: see SpinLock. It holds what it can. The data of the interrupted section stays
// locked, and the section continues when the handler returns, in the parent and in the child. Such
// a child may do what POSIX allows there; if its parent had one thread, it may continue normally.
//
// Two holders, for example a thread that forks and one that checks for leaks, wait for one
// another: the registry's lock is the first to be taken and the last to be released.
#pragma once

namespace tcmalloc {

// Called when the heap is held and released, for the locks of folders above, which have higher
// ranks than the heap's. `prepare`: the heap's locks are held. `parent`, or `child` in a forked
// child: they are no longer held. As SpinLock's functions for fork.
struct ForkHandlers {
  void (*prepare)();
  void (*parent)();
  void (*child)();
};

// Used from the next hold on, for good. `handlers` lives as long as the process. False, with a line
// on stderr, when there are too many. Thread safety: any.
bool AddForkHandlers(const ForkHandlers* handlers);

// Requires: there is a heap. False when it held nothing; ReleaseHeap is called nevertheless.
bool HoldHeap();
// The calling thread, which holds the heap, holds all of it, and no operation is half done.
bool HoldIsComplete();
// By the thread that holds it.
void ReleaseHeap();
// True when the calling thread holds the heap: in another library's handler around fork, or in a
// leak check.
bool HoldsHeap();

// Instead of ReleaseHeap, in a child that was forked while this thread held the heap: first
// releases the locks of the heap. If that returns true, call the `child` functions next. False when
// the hold held nothing.
bool ReleaseHeapInForkedChild();
void CallChildHandlers();

}  // namespace tcmalloc
