// SPDX-License-Identifier: BSD-3-Clause
#include "process/sampling.h"

#include "os/clock.h"

namespace tcmalloc {

void Sampling::SetPeriod(size_t period) {
  // Gaps are at most 37 times the period.
  if (period > SampleGaps::kMaxGap / 40) period = 0;
  period_.store(period, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
}

void Sampling::SetSeed(uint64_t seed) { seed_.store(seed, std::memory_order_relaxed); }

SampleGaps Sampling::NewGaps() {
  // Two adjacent seeds, or two adjacent numbers, must not give the same state, nor one that the
  // generator reaches from the other in a few steps.
  constexpr uint64_t kOfSeed = 0xd1342543de82ef95;
  constexpr uint64_t kOfNumber = 0xaf251af3b0f025b5;
  const uint64_t number = generators_.fetch_add(1, std::memory_order_relaxed) + 1;
  uint64_t seed = seed_.load(std::memory_order_relaxed);
  if (seed == 0) {
    // The address differs between processes.
    seed = static_cast<uint64_t>(Microseconds()) ^ (reinterpret_cast<uintptr_t>(&seed) << 20);
  }
  return SampleGaps(seed * kOfSeed ^ number * kOfNumber);
}

bool Sampling::CountWithoutCache(size_t bytes) { return NewGaps().Next(period()) < bytes; }

void Sampling::Adopt(ThreadCache* cache) {
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  const size_t mean = period();
  if (mean == 0) return cache->SetSample(Countdown::kNever, generation);
  cache->gaps = NewGaps();
  cache->SetSample(cache->gaps.Next(mean), generation);
}

bool Sampling::CountSlow(ThreadCache* cache, size_t bytes, bool gap_lost) {
  const size_t mean = period();
  const uint32_t generation = cache->sample_generation();
  if (mean == 0) {
    cache->SetSample(Countdown::kNever, generation);
    return false;
  }
  if (!gap_lost) {
    cache->SetSample(cache->gaps.Next(mean), generation);
    return true;
  }
  // If this allocation uses up the gap, the next one begins after it.
  const size_t gap = cache->gaps.Next(mean);
  cache->SetSample(gap >= bytes ? gap - bytes : cache->gaps.Next(mean), generation);
  return gap < bytes;
}

}  // namespace tcmalloc
