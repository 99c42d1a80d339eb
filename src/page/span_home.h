// SPDX-License-Identifier: BSD-3-Clause
// SpanHome: what the page heap keeps for one group of processors (a shard of the central tier):
// empty spans for its next use, and the end of its last new span, where the next one goes. Shards
// have their spans in runs of their own (page/near_run.h). SpanHomes: those of one page heap.
//
// Ownership: the shard's. A page heap knows the homes that were added to it (PageHeap::AddHome) for
// the rest of its life.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/counters.h"
#include "base/units.h"
#include "page/span_cache.h"

namespace tcmalloc {

struct SpanHome {
  SpanHome() = default;
  SpanHome(const SpanHome&) = delete;
  SpanHome& operator=(const SpanHome&) = delete;

  // Provides its own synchronization.
  SpanCache kept;
  // Where the last new span of the home ends; PageId() before there is one. Page heap's lock.
  PageId run_end;
  // The home that was added before this one. Constant once this one is added.
  SpanHome* next = nullptr;
};

class SpanHomes {
 public:
  // Requires: nobody adds another one meanwhile; `home` was not added before.
  void Add(SpanHome& home) {
    count_.Add(1);
    home.next = last_added_.load(std::memory_order_relaxed);
    last_added_.store(&home, std::memory_order_release);
  }
  // The first one that `ok` holds for, from the one that was added last on; null when there is
  // none.
  template <typename Predicate>
  SpanHome* FirstWhere(Predicate ok) const {
    SpanHome* home = last_added_.load(std::memory_order_acquire);
    while (home != nullptr && !ok(*home)) home = home->next;
    return home;
  }
  template <typename F>
  void ForEach(F f) const {
    FirstWhere([&f](SpanHome& home) { return f(home), false; });
  }
  size_t count() const { return count_.value(); }
  size_t KeptBytes() const {
    size_t sum = 0;
    ForEach([&sum](const SpanHome& home) { sum += home.kept.bytes(); });
    return sum;
  }

 private:
  // Release and acquire: a home that is found is constructed.
  std::atomic<SpanHome*> last_added_{nullptr};
  OwnedCounter count_;
};

}  // namespace tcmalloc
