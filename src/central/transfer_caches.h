// SPDX-License-Identifier: BSD-3-Clause
// TransferCaches: the transfer caches of all size classes, and the budget of bytes that they share.
// Slots go to the classes that use them: see transfer_policy. It has no state outside itself:
// groups of processors can have one each. Called by: the central cache. Lock: its caches', one at a
// time. Thread safety: any.
//
// Invariants
//   T3  The batch bytes of all slots and what is unclaimed of the budget are the budget's total.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/size_classes.h"
#include "base/tuning.h"
#include "central/per_size_class.h"
#include "central/transfer_cache.h"
#include "central/transfer_policy.h"
#include "page/metadata_arena.h"

namespace tcmalloc {

class TransferCaches {
 public:
  explicit TransferCaches(MetadataArena& arena,
                          size_t budget_bytes = kTuning.transfer.max_shard_bytes)
      : budget_(budget_bytes), caches_(arena, budget_) {}

  TransferCache& operator[](SizeClass c) { return caches_[c]; }
  const TransferBudget& budget() const { return budget_; }

  // Takes a batch of class `c`. False when there is no room and none can be made.
  // Cost: one lock; where the budget is spent, up to Tuning::Transfer::classes_asked more.
  [[nodiscard]] bool TryInsert(SizeClass c, void* const* batch);
  // Hands a batch of class `c` out. False when there is none.
  [[nodiscard]] bool TryRemove(SizeClass c, void** batch) { return caches_[c].TryRemove(batch); }

  // Calls f(lock) for every lock.
  template <typename F>
  void ForEachLock(F f) {
    for (size_t i = 1; i < kNumSizeClasses; ++i) f(caches_[static_cast<SizeClass>(i)].lock());
  }

  // Aborts when T3 does not hold. No other thread may use the caches meanwhile.
  void CheckInvariants();

 private:
  // Makes other classes give up unused slots, until the budget has room for a batch of class `c` or
  // enough of them were asked. True in the first case.
  bool MakeRoom(SizeClass c);

  // Provides its own synchronization.
  TransferBudget budget_;
  PerSizeClass<TransferCache> caches_;
  // Who is asked next, a number that only grows. Written by whoever asks; when two ask at once,
  // both may ask the same class, which does no harm: so relaxed.
  std::atomic<size_t> next_asked_{0};
};

}  // namespace tcmalloc
