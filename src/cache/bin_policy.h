// SPDX-License-Identifier: BSD-3-Clause
// How large a thread cache's bin of one size class may be, and how it grows. Pure functions of the
// class and of the present capacity.
//
// Rule (slow start, after the TCMalloc document). A bin starts with room for a cache line's worth
// of objects, at least four. Each time it runs empty or full its capacity doubles until it holds a
// batch, then grows by a batch, up to kMaxBytes of objects and kMaxObjects. A refill brings half
// the capacity, at least a cache line's worth and at most kMaxMove objects; an overflow returns the
// oldest half.
//
// Why small maxima: a prototype with 4 MiB per class was a quarter slower on containers and took
// fifteen times the memory in a producer/consumer than one with 128 KiB: last-in-first-out reuse
// shuffles addresses, the bitmaps behind restore their order.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/config.h"
#include "base/size_classes.h"

namespace tcmalloc::bin_policy {

inline constexpr size_t kMaxBytes = size_t{128} << 10;
inline constexpr size_t kMaxObjects = 2046;
// Pointers on the stack of the slow path: 2 KiB, which a thread with a stack of 16 KiB can afford.
inline constexpr size_t kMaxMove = 256;

// Objects in a cache line, at least one.
constexpr size_t LineObjects(SizeClass c) {
  return (kCacheLineSize + kSizeClasses.size(c) - 1) / kSizeClasses.size(c);
}

constexpr size_t MaxCapacity(SizeClass c) {
  return std::clamp<size_t>(kMaxBytes / kSizeClasses.size(c), 2, kMaxObjects);
}

constexpr size_t InitialCapacity(SizeClass c) {
  return std::min(MaxCapacity(c), std::max<size_t>(4, LineObjects(c)));
}

// The capacity after the bin of capacity `capacity` ran empty or full; 0 stands for no bin yet.
constexpr size_t NextCapacity(SizeClass c, size_t capacity) {
  const size_t batch = kSizeClasses.batch_size(c);
  if (capacity == 0) return InitialCapacity(c);
  const size_t grown = capacity < batch ? std::min(capacity * 2, batch) : capacity + batch;
  return std::min(grown, MaxCapacity(c));
}

// Objects to fetch for an empty bin.
constexpr size_t RefillCount(SizeClass c, size_t capacity) {
  const size_t wanted = std::max({capacity / 2, LineObjects(c), size_t{1}});
  return std::min({wanted, std::max<size_t>(capacity, 1), kMaxMove});
}

// Objects to return from a full bin.
constexpr size_t OverflowCount(size_t capacity) { return (capacity + 1) / 2; }

}  // namespace tcmalloc::bin_policy
