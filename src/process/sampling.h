// SPDX-License-Identifier: BSD-3-Clause
// Sampling decides which allocations are sampled. instruments/profiles/sampler.h keeps the samples.
//
// An object of s bytes is sampled with probability 1 - e^(-s/period), whichever thread allocates
// it: see docs/design/sampling.md. Each thread draws its own gaps, which its Countdown counts down.
// A thread without a cache draws a gap for every allocation. The effect is the same, since the rest
// of a gap does not depend on the bytes counted before.
//
// Thread safety: any. Cost: while nothing is sampled, a load and a comparison on the slow path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/sampling_gap.h"
#include "thread_cache/thread_cache.h"

namespace tcmalloc {

class Sampling {
 public:
  // The mean number of bytes between two samples; 0: no sampling.
  size_t period() const { return period_.load(std::memory_order_relaxed); }
  // Each thread uses the former period until its next slow path; the caller calls
  // Registry::AlarmAll afterwards. If `period` is so large that no sample would ever be due,
  // sampling is off.
  void SetPeriod(size_t period);
  // For tests: the seed of all gaps drawn from now on. Without it each process has a different one.
  void SetSeed(uint64_t seed);

  // Called on the slow path of an allocation of `bytes` that the fast path has not counted. True if
  // the allocation must be sampled. `cache` may be null.
  bool Count(ThreadCache* cache, size_t bytes) {
    if (cache == nullptr) return period() != 0 && CountWithoutCache(bytes);
    if (cache->sample_generation() != generation_.load(std::memory_order_acquire)) Adopt(cache);
    const Countdown::Due due = cache->CountAllocation(bytes);
    if (__builtin_expect(due.sample || due.gap_lost, false)) {
      return CountSlow(cache, bytes, due.gap_lost);
    }
    return false;
  }

 private:
  // Returns a generator whose numbers differ from those of all others.
  SampleGaps NewGaps();
  TC_SLOW_PATH bool CountWithoutCache(size_t bytes);
  TC_SLOW_PATH void Adopt(ThreadCache* cache);
  TC_SLOW_PATH bool CountSlow(ThreadCache* cache, size_t bytes, bool gap_lost);

  std::atomic<size_t> period_{0};
  // How often the period was set. Written after the period (release): a thread that loads a new
  // generation (acquire) sees its period or a newer one.
  std::atomic<uint32_t> generation_{0};
  std::atomic<uint64_t> seed_{0};
  std::atomic<uint64_t> generators_{0};
};

}  // namespace tcmalloc
