// SPDX-License-Identifier: BSD-3-Clause
// FreeQueue: the objects that the program freed last, in the order of their frees. Their memory is
// not used again while they are in the queue, so that a write to a freed object damages only its
// pattern, and a second free finds the header.
//
// Lock: LockRank::kFreeQueue, for a list operation; around fork it is held with the heap's locks.
// Memory: at most the limit, and an entry for each object. Thread safety: any.
#pragma once

#include <cstddef>

#include "instruments/red_zones/debug_object.h"
#include "os/spinlock.h"

namespace tcmalloc {

class FreeQueue {
 public:
  // An entry is not in the header, since the program may overwrite the header, and the header may
  // be protected.
  struct Entry {
    DebugObject* object;
    char* raw;
    size_t bytes;  // of raw memory, without a protected page
    bool fenced;
    Entry* next;
  };

  // Adds the entry, and makes its object kFreed unless the object is fenced. Returns the oldest
  // entries that must leave so that the rest has at most `limit` bytes; null for none. Their
  // objects are kFreeing, if they are not fenced: the caller checks them and returns their memory.
  Entry* Push(Entry* entry, size_t limit) TC_EXCLUDES(lock_);

  // Calls f() with the lock held if the object, which is not fenced, is in the queue, so that it
  // stays there.
  template <typename F>
  void IfInside(const DebugObject& object, F f) TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    if (object.Is(DebugObject::kFreed)) f();
  }

  // A racy read, for statistics.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  SpinLock& lock() { return lock_; }

 private:
  SpinLock lock_{LockRank::kFreeQueue};
  // Guarded by lock_.
  Entry* oldest_ = nullptr;
  Entry* newest_ = nullptr;
  // Written with the lock held.
  std::atomic<size_t> bytes_{0};
};

extern constinit FreeQueue free_queue;

// Registers the fork handlers of the queue's lock. Called when the library is loaded.
void PrepareFreeQueue();

}  // namespace tcmalloc
