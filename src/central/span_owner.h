// SPDX-License-Identifier: BSD-3-Clause
// SpanOwner: the owner of a span of small objects: the size class, the shard, and whether the
// central free list of the class counts the span as its own at the moment. A value of 16 bits in
// Span::owner; the page layer does not interpret it.
//
// The states of a span's owner.
//   none                    free, or a large object
//   class, shard            being made; or emptied, until the call that emptied it ends
//   class, shard, counted   its objects may be in use
//   no class, shard         emptied: in a SpanCache, or on its way there
//
// Synchronization. Written by the thread that makes or empties the span; while the class is set,
// with the lock of the class and shard that it names held. A thread that holds that lock and reads
// a counted owner that names it knows that the span stays until it releases the lock. Without the
// lock the owner is a hint where to look, except for the thread that has one of the span's objects:
// class and shard do not change before that object is freed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/size_classes.h"
#include "page_heap/span.h"

namespace tcmalloc {

class SpanOwner {
 public:
  static constexpr int kShardBits = 6;
  static constexpr size_t kMaxShards = size_t{1} << kShardBits;

  // None.
  constexpr SpanOwner() : bits_(0) {}
  // Requires: shard < kMaxShards.
  constexpr SpanOwner(SizeClass c, size_t shard, bool counted = false)
      : bits_(static_cast<uint16_t>((counted ? kCounted : 0) | Index(c) << kShardBits | shard)) {}

  static SpanOwner Of(const Span* span) {
    return SpanOwner(span->owner.load(std::memory_order_relaxed));
  }
  void StoreIn(Span* span) const { span->owner.store(bits_, std::memory_order_relaxed); }

  // kNone: the span has no class.
  constexpr SizeClass size_class() const {
    return static_cast<SizeClass>((bits_ & ~kCounted) >> kShardBits);
  }
  constexpr size_t shard() const { return bits_ & (kMaxShards - 1); }
  // False for a span in a SpanPool: the number of the pool has no class.
  constexpr bool counted() const { return bits_ >= (kCounted | size_t{1} << kShardBits); }

  constexpr bool Is(SizeClass c, size_t shard) const {
    return (bits_ | kCounted) == SpanOwner(c, shard, true).bits_;
  }
  constexpr bool operator==(const SpanOwner&) const = default;

 private:
  friend struct FieldTable;

  // With a class. Without one it is the number of a SpanPool, Span::kFirstPool or above.
  static constexpr uint16_t kCounted = 1 << 15;
  static_assert(kCounted == Span::kFirstPool);
  static_assert(kNumSizeClasses << kShardBits <= kCounted);

  explicit constexpr SpanOwner(uint16_t bits) : bits_(bits) {}

  uint16_t bits_;
};

}  // namespace tcmalloc
