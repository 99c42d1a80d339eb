// SPDX-License-Identifier: BSD-3-Clause
// PressureListeners: the program's functions that are called before the library acts on memory
// pressure, so that the program can drop its own caches. The program owns the nodes.
//
// Listeners are called one at a time, the most recently added first, with no lock held: a listener
// may allocate and free, and add and remove listeners, itself included. The callers of Notify make
// sure that only one runs at a time. When Remove returns, the listener is not running and will not
// be called, unless it called Remove itself.
//
// Lock: LockRank::kCallbacks, for list operations. Thread safety: any.
#pragma once

#include "base/compiler.h"
#include "base/intrusive_list.h"
#include "os/spinlock.h"

namespace tcmalloc {

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

}  // namespace tcmalloc
