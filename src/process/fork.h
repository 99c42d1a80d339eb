// SPDX-License-Identifier: BSD-3-Clause
// fork() in a program with threads: the child finds a heap in which no lock is held and no
// operation is half done.
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

#include <cstdint>
#include <optional>

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

}  // namespace tcmalloc
