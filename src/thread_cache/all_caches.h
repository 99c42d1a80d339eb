// SPDX-License-Identifier: BSD-3-Clause
// AllCaches: every thread cache that a registry has made, for readers without its lock.
//
// A cache is made once and never unmade: at the end of its thread it is emptied and kept for
// another one. Each cache points to the one made before it. That pointer is written before the
// release store that publishes the cache. So a walk that begins with an acquire load of the newest
// one visits each older cache exactly once, without a lock, and reads only words that are atomic on
// their own (see BinTable, "For any thread"). Objects that move during the walk may be counted
// twice or not at all.
//
// Thread safety: changes require the registry's lock; any thread may read.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/counters.h"
#include "base/step_counts.h"
#include "thread_cache/thread_cache.h"

namespace tcmalloc {

class AllCaches {
 public:
  void Add(ThreadCache* cache) {
    cache->record.made_before = newest_.load(std::memory_order_relaxed);
    newest_.store(cache, std::memory_order_release);
  }
  // The cache that was made last; null when there is none.
  ThreadCache* newest() const { return newest_.load(std::memory_order_acquire); }

  // Calls f(bins) for the bins of every cache; most recent first. `f` may call only functions of
  // BinTable that any thread may call.
  template <typename F>
  void ForEachTable(F f) const {
    for (const ThreadCache* cache = newest(); cache != nullptr; cache = cache->record.made_before) {
      CountSteps(Step::kCacheVisited);
      f(cache->table());
    }
  }

  // The caches that living threads have, and those of threads that exist in the parent process
  // only.
  OwnedCounter of_threads;
  OwnedCounter orphans;

 private:
  friend struct FieldTable;

  std::atomic<ThreadCache*> newest_{nullptr};
};

}  // namespace tcmalloc
