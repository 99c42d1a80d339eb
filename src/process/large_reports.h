// SPDX-License-Identifier: BSD-3-Clause
// LargeReports: counts very large allocations, which are often mistakes, and reports some of them
// to the program's function and, if the user requested it, in a line on stderr. Each report raises
// the threshold of the next by an eighth, so that a program that works on large objects causes a
// few dozen reports at most: sixty reports span a factor of a thousand.
//
// Called at the end of slow paths, with no lock held. Synchronization: LockRank::kCallbacks guards
// the callback. Cost: a load for every object above kMaxSmallSize. A report costs the callback, a
// system call for the line, and the writer of stacks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "config/settings.h"
#include "os/spinlock.h"

namespace tcmalloc {

// The program's function. `object` is in use and holds at least `bytes`, the requested size.
using LargeAllocationCallback = void (*)(void* object, size_t bytes, void* context);

// Writes the functions of a stack, given by their return addresses, to stderr.
using StackWriter = void (*)(const uintptr_t* frames, size_t depth);

class LargeReports {
 public:
  static constexpr size_t kNever = SIZE_MAX;

  // Called after `object` was allocated for a request of `bytes`. May call the program's callback;
  // keeps errno.
  void Allocated(void* object, size_t bytes) {
    if (bytes >= first_threshold_.load(std::memory_order_relaxed))
      AllocatedLargeSlow(object, bytes);
  }

  // Reports allocations of at least this many bytes; kNever: neither reports nor counts. Resets the
  // threshold that earlier reports raised.
  void SetThreshold(size_t bytes);
  // The size from which on an allocation causes the next report.
  size_t threshold() const { return threshold_.load(std::memory_order_relaxed); }

  // Null for no callback. Calls that have begun continue.
  void SetCallback(LargeAllocationCallback callback, void* context) TC_EXCLUDES(lock_);
  void SetWritesLines(bool writes_lines) {
    writes_lines_.store(writes_lines, std::memory_order_relaxed);
  }
  // The writer is called after each line; null for no writer.
  void SetStackWriter(StackWriter writer) {
    stack_writer_.store(writer, std::memory_order_relaxed);
  }

  // The number of allocations of at least the threshold that was set, and of the reports among
  // them.
  size_t allocations() const { return allocations_.value(); }
  size_t reports() const { return reports_.value(); }

  SpinLock& lock() { return lock_; }

 private:
  void AllocatedLargeSlow(void* object, size_t bytes);
  // If several threads reach the threshold at the same time, returns true to one of them, and sets
  // `*next` to the next threshold.
  bool TakeReport(size_t bytes, size_t* next);
  void CallBack(void* object, size_t bytes) TC_EXCLUDES(lock_);

  // SetThreshold writes both, a report raises threshold_. No other data depends on them, so relaxed
  // suffices.
  std::atomic<size_t> first_threshold_{kLargeReportBytes};
  std::atomic<size_t> threshold_{kLargeReportBytes};
  std::atomic<bool> writes_lines_{false};
  std::atomic<StackWriter> stack_writer_{nullptr};

  // Provide their own synchronization.
  SharedCounter allocations_;
  SharedCounter reports_;

  SpinLock lock_{LockRank::kCallbacks};
  LargeAllocationCallback callback_ TC_GUARDED_BY(lock_) = nullptr;
  void* context_ TC_GUARDED_BY(lock_) = nullptr;
};

}  // namespace tcmalloc
