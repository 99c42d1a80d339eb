// SPDX-License-Identifier: BSD-3-Clause
// Counters that other threads may read at any time. OwnedCounter has one writer at a time (the
// owning thread, or the holder of the owner's lock) and costs a plain load and store. SharedCounter
// has many writers and costs an atomic addition. All accesses are relaxed: readers get a recent,
// untorn value, and other memory accesses are not ordered.
#pragma once

#include <atomic>
#include <cstddef>

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

}  // namespace tcmalloc
