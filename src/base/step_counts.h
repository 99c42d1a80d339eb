// SPDX-License-Identifier: BSD-3-Clause
// Counts the steps of loops whose length grows with the number of threads or of shards, by kind of
// step. Tests compare the counts before and after an operation. Only debug builds count.
//
// Cost: in debug builds an addition to a word that all threads write; no cost in release builds.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/config.h"

namespace tcmalloc {

enum class Step : uint8_t {
  kShardSearched,    // a refill looks at another shard
  kShardVisited,     // any other walk over shards
  kHomeVisited,      // a walk over the kept spans of shards
  kCacheVisited,     // a walk over thread caches
  kShardConsidered,  // a new thread looks for a shard
  kCount,
};

inline constinit std::array<std::atomic<uint64_t>, static_cast<size_t>(Step::kCount)> step_counts{};

// Relaxed order suffices for a count that is read while the threads are quiet.
inline void CountSteps(Step step, uint64_t n = 1) {
  if constexpr (kDebugBuild) {
    step_counts[static_cast<size_t>(step)].fetch_add(n, std::memory_order_relaxed);
  }
}

}  // namespace tcmalloc
