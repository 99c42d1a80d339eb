// SPDX-License-Identifier: BSD-3-Clause
// SpanHome: what the page heap keeps for one shard: unused spans for its next use, and the end of
// its last new span, where its next one is placed. Each shard has its spans in near runs of its own
// (page_heap/placement.h). SpanHomes: the homes of one page heap.
//
// Ownership: the shard owns its home. A home that was added to a page heap (PageHeap::AddHome)
// stays there for the rest of the page heap's life.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/counters.h"
#include "base/units.h"
#include "os/spinlock.h"
#include "page_heap/span_cache.h"
#include "page_heap/span_pool.h"

namespace tcmalloc {

struct SpanHome {
  // `lock`: that of the shard's kept spans.
  explicit SpanHome(SpinLock& lock) : kept(lock), pool(lock) {}
  SpanHome(const SpanHome&) = delete;
  SpanHome& operator=(const SpanHome&) = delete;

  // Take the lock: spans of small objects, and of large ones.
  SpanCache kept;
  SpanPool pool;
  // The end of the home's last new span; PageId() before there is one. Page heap's lock.
  PageId run_end;
  // The home that was added before this one. Constant once this one is added.
  SpanHome* next = nullptr;
};

class SpanHomes {
 public:
  // Requires: no other thread adds a home meanwhile; `home` was not added before.
  void Add(SpanHome& home) {
    count_.Add(1);
    home.next = last_added_.load(std::memory_order_relaxed);
    last_added_.store(&home, std::memory_order_release);
  }
  // The first home for which `ok` holds, in reverse order of adding; null when there is none.
  template <typename Predicate>
  SpanHome* FirstWhere(Predicate ok) const {
    SpanHome* home = last_added_.load(std::memory_order_acquire);
    for (; home != nullptr; home = home->next) {
      CountSteps(Step::kHomeVisited);
      if (ok(*home)) break;
    }
    return home;
  }
  template <typename F>
  void ForEach(F f) const {
    FirstWhere([&f](SpanHome& home) { return f(home), false; });
  }
  size_t count() const { return count_.value(); }
  // The bytes of all kept spans, of small and of large objects.
  size_t KeptBytes() const {
    size_t sum = 0;
    ForEach([&sum](const SpanHome& home) { sum += home.kept.bytes() + home.pool.bytes(); });
    return sum;
  }

 private:
  friend struct FieldTable;

  // Release and acquire: a thread that finds a home sees it constructed.
  std::atomic<SpanHome*> last_added_{nullptr};
  OwnedCounter count_;
};

}  // namespace tcmalloc
