// SPDX-License-Identifier: BSD-3-Clause
// Counters, and the counts of steps that debug builds keep.
//
// Counters that other threads may read at any time. OwnedCounter has one writer at a time (the
// owning thread, or the holder of the owner's lock) and costs a plain load and store. SharedCounter
// has many writers and costs an atomic addition. All accesses are relaxed: readers get a recent,
// untorn value, and other memory accesses are not ordered.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/config.h"

namespace tcmalloc {

class OwnedCounter {
 public:
  constexpr OwnedCounter() = default;
  size_t value() const { return value_.load(std::memory_order_relaxed); }
  void Set(size_t value) { value_.store(value, std::memory_order_relaxed); }
  void Add(size_t n) { Set(value() + n); }
  void Subtract(size_t n) { Set(value() - n); }

 private:
  std::atomic<size_t> value_{0};
};

// A setting or a hint. Readers load it without a lock; those that need the exact value load it
// again with the lock held.
template <typename T>
class Relaxed {
 public:
  constexpr explicit Relaxed(T value) : value_(value) {}
  T value() const { return value_.load(std::memory_order_relaxed); }
  void Set(T value) { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<T> value_;
};

class SharedCounter {
 public:
  constexpr SharedCounter() = default;
  size_t value() const { return value_.load(std::memory_order_relaxed); }
  void Add(size_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  void Subtract(size_t n) { value_.fetch_sub(n, std::memory_order_relaxed); }

 private:
  std::atomic<size_t> value_{0};
};

// Counts the steps of loops whose length grows with the number of threads or of shards, by kind of
// step. Tests compare the counts before and after an operation. Only debug builds count.
//
// Cost: in debug builds an addition to a word that all threads write; no cost in release builds.
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
