// SPDX-License-Identifier: BSD-3-Clause
// Whom to tell about memory pressure before the heap does something about it: parts of the program
// that can drop what they hold for speed. The nodes are the program's.
//
// Listeners are called one after the other, in the order of the most recently added, with no lock
// held: they may allocate and free, add and remove listeners, themselves included. One telling at a
// time: who tells sees to that. When Remove returns, the listener is not being called and will not
// be, unless it is the listener itself that calls.
//
// Lock: LockRank::kPressure, for list operations. Thread safety: any.
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
  // Waits, a millisecond at a time, while another thread is in the listener.
  void Remove(PressureListener* listener) TC_EXCLUDES(lock_);
  void Tell(int level) TC_EXCLUDES(lock_);

  // Around fork. The child has no thread that is telling but its own.
  SpinLock& lock() { return lock_; }
  void ForgetOthersInChild() TC_NO_THREAD_SAFETY_ANALYSIS;

 private:
  SpinLock lock_{LockRank::kPressure};
  IntrusiveList<PressureListener> listeners_ TC_GUARDED_BY(lock_);
  // Of the telling that goes on: who is called just now, by which thread (an address that is the
  // thread's own), and who is next.
  PressureListener* called_ TC_GUARDED_BY(lock_) = nullptr;
  PressureListener* next_ TC_GUARDED_BY(lock_) = nullptr;
  const void* teller_ TC_GUARDED_BY(lock_) = nullptr;
};

}  // namespace tcmalloc
