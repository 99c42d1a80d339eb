// SPDX-License-Identifier: BSD-3-Clause
// Who gives free memory back while nobody frees anything: threads that come by.
//
// A program that frees much and then does little may never again enter a slow path by itself: its
// few allocations come from the thread's cache. So a thread that frees sets the counters of the
// fast paths (Bins::bytes_until_sample), its own and now and then those of all threads, so that the
// next allocation comes by here. What a thread may spend here is a hundredth of the time since it
// last came by: one that allocates all the time gives back nothing that others left, one that wakes
// up once a second does it all. The further apart its visits are, the fewer bytes it may allocate
// until the next; when nothing is left to be given back, they end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/tuning.h"

namespace tcmalloc {

struct Heap;
class ThreadCache;

// How a thread's visits follow each other. Pure.
namespace idle_release_policy {

inline constexpr Tuning::IdleRelease kRules = kTuning.idle_release;

// A hundredth of the time away.
constexpr int64_t BudgetUs(int64_t away_ms) {
  if (away_ms < kRules.idle_ms) return 0;
  return away_ms > kRules.max_budget_us / 10 ? kRules.max_budget_us : away_ms * 10;
}
// The longest interval of a thread that comes by with an object of `size` bytes.
constexpr size_t MaxInterval(size_t size) {
  return size > kRules.max_interval_bytes / kRules.max_interval_objects
             ? size * kRules.max_interval_objects
             : kRules.max_interval_bytes;
}
// Bytes that the thread may allocate until it comes again. Requires: `size` is that of a small
// object.
constexpr size_t NextInterval(size_t last, int64_t away_ms, size_t size) {
  if (away_ms >= kRules.idle_ms) return 0;
  if (last < kRules.min_interval_bytes) return kRules.min_interval_bytes;
  const size_t longest = MaxInterval(size);
  return last < longest / 2 ? last * 2 : longest;
}

}  // namespace idle_release_policy

// The slow path of an allocation by the owner of `cache`, whose counter has run out; `size` is that
// of the object where it is a small one, else 0. Cost: some ten nanoseconds, and the budget.
TC_SLOW_PATH void ComeBy(Heap& heap, ThreadCache* cache, size_t size);

// The slow path of a free. `cache` may be null: then only others are asked to come by.
TC_SLOW_PATH void FreedSlowly(Heap& heap, ThreadCache* cache, bool large);

}  // namespace tcmalloc
