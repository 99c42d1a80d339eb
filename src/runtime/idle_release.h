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

namespace tcmalloc {

struct Heap;
class ThreadCache;

// How a thread's visits follow each other. Pure.
namespace idle_release_policy {

// Away for so long, a thread has time to give something back.
inline constexpr int64_t kIdleMs = 50;
// Away for so long, a thread has no use for what its cache holds.
inline constexpr int64_t kFlushMs = 1000;
// Whatever the pause was.
inline constexpr int64_t kMaxBudgetUs = 20'000;
inline constexpr size_t kMinInterval = size_t{4} << 10;
// A thread that was busy and then is not comes by no sooner than after so much, and so many objects
// of the size that it came by with: hundreds of small ones, of which each costs a tenth of a
// nanosecond more for it, and dozens of those that are as large as a page. With the bytes alone a
// program whose objects have 5 KiB came by with every twelfth (rptest, 2 threads: 4 % of its time).
inline constexpr size_t kMaxInterval = size_t{64} << 10;
inline constexpr size_t kMaxIntervalObjects = 64;

// A hundredth of the time away.
constexpr int64_t BudgetUs(int64_t away_ms) {
  if (away_ms < kIdleMs) return 0;
  return away_ms > kMaxBudgetUs / 10 ? kMaxBudgetUs : away_ms * 10;
}
// The longest interval of a thread that comes by with an object of `size` bytes.
constexpr size_t MaxInterval(size_t size) {
  return size > kMaxInterval / kMaxIntervalObjects ? size * kMaxIntervalObjects : kMaxInterval;
}
// Bytes that the thread may allocate until it comes again. Requires: `size` is that of a small
// object.
constexpr size_t NextInterval(size_t last, int64_t away_ms, size_t size) {
  if (away_ms >= kIdleMs) return 0;
  if (last < kMinInterval) return kMinInterval;
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
