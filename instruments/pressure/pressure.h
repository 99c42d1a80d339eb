// SPDX-License-Identifier: BSD-3-Clause
// Memory pressure in this process, as TCMALLOC_PRESSURE configures it, and the program's functions
// that are called before the library acts on it (PressureListeners). The minimal library has
// instruments/no_instruments.cc instead.
//
// Either a thread of the library listens, started when the library is loaded, or the program does,
// in its own event loop. A forked child has neither its parent's thread nor its descriptors, which
// are closed in it. If the parent had the thread, the child starts one at its first slow allocation
// after kReviveAfterMs, so a child that soon calls exec never starts one.
//
// Which thread works. One thread at a time is "at work": it opens sources, handles events, calls
// the program's listeners. The library's thread is at work from its start to the end of the
// process; a program's thread is at work during a call. If another thread is at work,
// HandlePressure does nothing, and PressureFd waits. So the state has one owner, which takes it
// with one compare-and-swap; threads need no other protocol.
//
// Fork. The child has one thread, the one that forked. There are two cases. (1) No thread was at
// work, or a thread that the child lacks. The child then closes its descriptors and marks the state
// as free, and Begin constructs a new object over unfinished changes. (2) The forking thread is at
// work itself, in a listener of the program: it stays at work, without the descriptors. If the
// listener returns, the loop of the library's thread, now the child's only one, finds them closed
// and begins anew; a call from the program's event loop returns 0, and the program requests a new
// descriptor. No object is constructed over state that a calling function uses, because that thread
// is at work. wants_thread, not has_thread, decides whether a child and its children get a thread.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "base/intrusive.h"
#include "os/spinlock.h"

namespace tcmalloc {

// The program's functions that are called before the library acts on memory pressure, so that the
// program can drop its own caches. The program owns the nodes.
//
// Listeners are called one at a time, the most recently added first, with no lock held: a listener
// may allocate and free, and add and remove listeners, itself included. The callers of Notify make
// sure that only one runs at a time. When Remove returns, the listener is not running and will not
// be called, unless it called Remove itself.
//
// Lock: LockRank::kCallbacks, for list operations. Thread safety: any.
struct PressureListener {
  void (*notify)(int level, void* context) = nullptr;
  void* context = nullptr;
  ListNode<PressureListener> list_node;
};

class PressureListeners {
 public:
  constexpr PressureListeners() = default;

  void Add(PressureListener* listener) TC_EXCLUDES(lock_);
  // While another thread runs the listener, waits in steps of a millisecond.
  void Remove(PressureListener* listener) TC_EXCLUDES(lock_);
  void Notify(int level) TC_EXCLUDES(lock_);

  // For fork. In the child, only the child's thread can be in Notify.
  SpinLock& lock() { return lock_; }
  void ForgetOthersInChild() TC_NO_THREAD_SAFETY_ANALYSIS;

 private:
  SpinLock lock_{LockRank::kCallbacks};
  IntrusiveList<PressureListener> listeners_ TC_GUARDED_BY(lock_);
  // State of Notify: the listener that runs now, the next one, and the thread that calls them, as
  // an address that belongs to this thread.
  PressureListener* current_ TC_GUARDED_BY(lock_) = nullptr;
  PressureListener* next_ TC_GUARDED_BY(lock_) = nullptr;
  const void* notifier_ TC_GUARDED_BY(lock_) = nullptr;
};

struct Heap;

// Starts the thread that the environment requests. Call it when the C library is ready, with no
// lock held.
void OnPressureLoad();
// Runs in a child that has lived for revive_after_ms: starts the thread again, unless the child
// listens already. No lock may be held.
void ReviveAfterFork();

// Returns, for the program's event loop, a descriptor that is readable when HandlePressure has
// work. It is the same in each call, unless the program has closed it. Negative on failure: -EBUSY
// if the library's thread listens, or from a listener in a child that it forked; -EMFILE when the
// process has no descriptors left; -EPERM and others in a sandbox; -ENOTSUP in the minimal library.
// It listens to the sources of the setting, or to all if the setting names none.
int PressureFd(Heap& heap);
// Reads the events and acts on them, without waiting. Returns the level, 0 for none.
int HandlePressure(Heap& heap);

void AddPressureListener(PressureListener* listener);
void RemovePressureListener(PressureListener* listener);

}  // namespace tcmalloc
