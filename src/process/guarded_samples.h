// SPDX-License-Identifier: BSD-3-Clause
// The heap's record of guarded samples (instruments/guard/guarded_objects.h): their addresses, for
// the slow paths, and their figures, for the statistics. All fields are zero in the minimal
// library, and until guarded sampling is switched on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"

namespace tcmalloc {

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

}  // namespace tcmalloc
