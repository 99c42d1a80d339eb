// SPDX-License-Identifier: BSD-3-Clause
// LargeReports: counts allocations that are so large that they are more often a mistake than not,
// and reports some of them: to a function of the program's, and, where the user asked for it, in a
// line on stderr. Each report raises the threshold of the next by an eighth, so that a program that
// works on large objects is told a few dozen times at most: sixty reports lie a factor of a
// thousand apart.
//
// Called at the end of slow paths, with no lock held. Synchronization: LockRank::kReports guards
// the callback. Cost: a load for every object above kMaxSmallSize; a report is what the callback
// costs, a system call for the line, and what the writer of stacks costs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/tuning.h"
#include "os/spinlock.h"

namespace tcmalloc {

// `object` is in use and holds at least `bytes`, which is what was asked for.
using LargeAllocationCallback = void (*)(void* object, size_t bytes, void* context);

// Writes the functions of a stack, given by their return addresses, to stderr.
using StackWriter = void (*)(const uintptr_t* frames, size_t depth);

class LargeReports {
 public:
  static constexpr size_t kNever = SIZE_MAX;

  // A request for `bytes` was served by `object`. May call the program back; keeps errno.
  void Allocated(void* object, size_t bytes) {
    if (bytes >= first_threshold_.load(std::memory_order_relaxed))
      AllocatedLargeSlow(object, bytes);
  }

  // From this many bytes on; kNever for no reports, and no counting. The next report is of that
  // size, however many there were.
  void SetThreshold(size_t bytes);
  // From how many bytes on the next report comes.
  size_t threshold() const { return threshold_.load(std::memory_order_relaxed); }

  // Null for none. Calls that have begun go on.
  void SetCallback(LargeAllocationCallback callback, void* context) TC_EXCLUDES(lock_);
  void SetWritesLines(bool writes_lines) {
    writes_lines_.store(writes_lines, std::memory_order_relaxed);
  }
  // Called after each line; null for none.
  void SetStackWriter(StackWriter writer) {
    stack_writer_.store(writer, std::memory_order_relaxed);
  }

  // Allocations from the threshold on that was set, and reports among them.
  size_t allocations() const { return allocations_.value(); }
  size_t reports() const { return reports_.value(); }

  SpinLock& lock() { return lock_; }

 private:
  void AllocatedLargeSlow(void* object, size_t bytes);
  // True for one of the threads that meet the threshold at the same time; sets `*next` to the next.
  bool ClaimReport(size_t bytes, size_t* next);
  void Tell(void* object, size_t bytes) TC_EXCLUDES(lock_);

  // Written by whoever sets the threshold, threshold_ also by who reports. They decide what is
  // counted and reported, nothing else hangs on them, so relaxed suffices.
  std::atomic<size_t> first_threshold_{kTuning.large_reports.threshold_bytes};
  std::atomic<size_t> threshold_{kTuning.large_reports.threshold_bytes};
  std::atomic<bool> writes_lines_{false};
  std::atomic<StackWriter> stack_writer_{nullptr};

  // Provide their own synchronization.
  SharedCounter allocations_;
  SharedCounter reports_;

  SpinLock lock_{LockRank::kReports};
  LargeAllocationCallback callback_ TC_GUARDED_BY(lock_) = nullptr;
  void* context_ TC_GUARDED_BY(lock_) = nullptr;
};

}  // namespace tcmalloc
