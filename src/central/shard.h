// SPDX-License-Identifier: BSD-3-Clause
// Shard: the part of the central tier that serves one processor, or a few where there are many:
// the spans of each size class, and what the page heap keeps for them (SpanHome). Memory that goes
// through a shard stays near its processor's caches, and threads on other processors do not wait
// for its locks. Made and found by ShardMap; what is in it is CentralFreeList's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/counters.h"
#include "base/size_classes.h"
#include "central/ranked_spans.h"
#include "os/spinlock.h"
#include "page/span_home.h"

namespace tcmalloc {

// The spans of one size class in one shard.
struct alignas(kCacheLineSize) ShardSpans {
  // Calls f(lock) for its lock.
  template <typename F>
  void ForEachLock(F f) {
    f(lock);
  }

  SpinLock lock{LockRank::kCentral};
  RankedSpans spans TC_GUARDED_BY(lock);
  // Written with the lock held; read racily for statistics, and to see without the lock whether
  // there is anything to take.
  OwnedCounter free_objects;
  OwnedCounter num_spans;
  OwnedCounter hole_pages;
};

class Shard {
 public:
  explicit Shard(size_t number) : number_(number) {}
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Less than ShardMap::kMost.
  size_t number() const { return number_; }

  SpanHome& home() { return home_; }

  // Null while the shard has had no span of the class.
  ShardSpans* spans(SizeClass c) const { return spans_[Index(c)].load(std::memory_order_acquire); }

  // Calls f(lock) for the lock of each class that there is, and of what the page heap keeps.
  template <typename F>
  void ForEachLock(F f) {
    ForEachClassLock(f);
    f(home_.kept.lock());
  }
  // The same without the latter, which PageHeap::ForEachLock has.
  template <typename F>
  void ForEachClassLock(F f) {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      if (ShardSpans* const spans = this->spans(static_cast<SizeClass>(i))) spans->ForEachLock(f);
    }
  }

 private:
  friend class ShardMap;

  const size_t number_;
  // Written by ShardMap, each once; read without a lock. Release and acquire: who finds spans finds
  // them constructed.
  std::array<std::atomic<ShardSpans*>, kNumSizeClasses> spans_ = {};
  SpanHome home_;
};

}  // namespace tcmalloc
