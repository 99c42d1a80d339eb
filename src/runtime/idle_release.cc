// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/idle_release.h"

#include "base/tuning.h"
#include "os/clock.h"
#include "runtime/heap.h"

namespace tcmalloc {
namespace {

constinit std::atomic<int64_t> alarmed_all_ms{0};

}  // namespace

void ComeBy(Heap& heap, ThreadCache* cache, size_t size) {
  ThreadCache::Visits& visits = cache->visits;
  const bool pending = heap.page_heap.release_pending();
  const int64_t last_alarm_ms = alarmed_all_ms.load(std::memory_order_relaxed);
  // A program that has given nothing back yet, one that starts above all, is not asked the time.
  const int64_t now_ms = pending || last_alarm_ms != 0 ? CoarseMilliseconds() : 0;
  if (!pending) {
    if (last_alarm_ms != 0 && now_ms - last_alarm_ms < kTuning.idle_release.alarm_all_ms) {
      // What is freed now would alarm no one.
      const bool visiting = visits.last_ms != 0;
      visits.interval = idle_release_policy::NextInterval(visiting ? visits.interval : 0, 0, size);
      visits.last_ms = now_ms;
      cache->SetVisit(visits.interval);
    } else {
      visits = ThreadCache::Visits();
      cache->SetVisit(Countdown::kNever);
    }
    return;
  }
  // How long one was away that comes for the first time is not known: it may have been busy. That
  // begins now, and it is seen again at once.
  const bool first = visits.last_ms == 0;
  const int64_t away_ms = first ? 0 : now_ms - visits.last_ms;
  visits.last_ms = now_ms;
  if (first) visits.interval = 0;
  if (away_ms >= kTuning.idle_release.flush_ms) cache->Flush();
  if (const int64_t budget_us = idle_release_policy::BudgetUs(away_ms); budget_us > 0) {
    const int64_t end_us = Microseconds() + budget_us;
    // What the shards keep goes to the free spans once.
    for (bool drain = true; heap.page_heap.ReleaseDue(PageHeap::kReleaseSlice, drain) > Length(0);
         drain = false) {
      if (Microseconds() >= end_us) break;
    }
  }
  if (!first) visits.interval = idle_release_policy::NextInterval(visits.interval, away_ms, size);
  cache->SetVisit(visits.interval);
}

void FreedSlowly(Heap& heap, ThreadCache* cache, bool large) {
  const bool much = heap.page_heap.hints().TakeFreedMuch();
  if (!large && !much && cache != nullptr &&
      ++cache->visits.slow_frees % kTuning.idle_release.frees_per_alarm != 0) {
    return;
  }
  if (!heap.page_heap.release_pending()) return;
  if (cache != nullptr) {
    // What it learned while it was busy is no measure for what comes.
    cache->visits.interval = 0;
    cache->SetVisit(0);
  }
  const int64_t now_ms = CoarseMilliseconds();
  int64_t last_ms = alarmed_all_ms.load(std::memory_order_relaxed);
  if (now_ms - last_ms >= kTuning.idle_release.alarm_all_ms &&
      alarmed_all_ms.compare_exchange_strong(last_ms, now_ms, std::memory_order_relaxed)) {
    heap.registry.AlarmAll();
  }
}

}  // namespace tcmalloc
