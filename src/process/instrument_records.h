// SPDX-License-Identifier: BSD-3-Clause
// What the heap keeps for the instruments, for its slow paths and its statistics: guarded samples,
// and counts of memory pressure. All zero in the minimal library, which lacks the instruments. And
// whether this is a debug library.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"

namespace tcmalloc {

// True in the debug libraries, which keep a header and red zones with each object
// (instruments/red_zones/debug_object.h). Defined in instruments/debug/allocation.cc; for the other
// libraries in malloc/entry_c.cc.
extern const bool kHasRedZones;

struct GuardedSamples {
  // True if `p` is in the pool of guarded objects: in an object, a free slot, or the pages between
  // them. Cost: two loads and a comparison. Thread safety: any.
  bool Contains(const void* p) const {
    const uintptr_t bytes = pool_bytes.load(std::memory_order_acquire);
    const uintptr_t start = pool_start.load(std::memory_order_relaxed);
    return reinterpret_cast<uintptr_t>(p) - start < bytes;
  }

  // Every n-th sample is guarded; with 0, none is. Any thread may write it. Relaxed, since no other
  // data depends on it.
  std::atomic<size_t> every{0};
  // Written once, when the pool is made: `pool_start` and `pool` before `pool_bytes` (release).
  std::atomic<uintptr_t> pool_start{0};
  std::atomic<uintptr_t> pool_bytes{0};
  // The GuardPool, or null.
  std::atomic<void*> pool{nullptr};
  // Objects in use, their bytes (an empty one counts as one byte), the accessible pages that they
  // are on, and the pool's records.
  SharedCounter objects;
  SharedCounter object_bytes;
  SharedCounter page_bytes;
  SharedCounter record_bytes;
};

// Counts of memory pressure events and actions, for the statistics. All zero in the minimal
// library, which does not listen. Thread safety: any.
struct PressureCounts {
  static constexpr size_t kLevels = 3;

  void Acted(int level, size_t bytes) {
    actions[static_cast<size_t>(level) - 1].Add(1);
    moved_bytes[static_cast<size_t>(level) - 1].Add(bytes);
  }

  // The number of sources that the library listens to, and of those that could not be opened or
  // failed later.
  std::atomic<unsigned> sources{0};
  std::atomic<unsigned> sources_failed{0};
  // Events that the sources reported.
  SharedCounter events;
  // By level: the number of actions, and the bytes that they moved.
  std::array<SharedCounter, kLevels> actions;
  std::array<SharedCounter, kLevels> moved_bytes;
};

}  // namespace tcmalloc
