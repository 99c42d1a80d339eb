// SPDX-License-Identifier: BSD-3-Clause
// Shard: the part of the central free lists that serves one CPU, or a few on machines with many:
// the spans of each size class, and what the page heap keeps for them (SpanHome). Memory that
// passes through a shard stays in its CPU's hardware caches, and threads on other CPUs do not wait
// for its locks. ShardMap constructs and finds shards; CentralFreeList uses what is in them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
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
  // Written with the lock held; read racily for statistics, and for a check without the lock
  // whether the shard has free objects.
  TC_MEMBERS(OwnedCounter free_objects;, OwnedCounter num_spans;)
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

  // Null until the shard has a span of the class.
  ShardSpans* spans(SizeClass c) const { return spans_[Index(c)].load(std::memory_order_acquire); }

  // Calls f(lock) for the lock of each existing class, and of the page heap's part.
  template <typename F>
  void ForEachLock(F f) {
    ForEachClassLock(f);
    f(home_.kept.lock());
    f(home_.pool.lock());
  }
  // As ForEachLock, without the page heap's, which PageHeap::ForEachLock has.
  template <typename F>
  void ForEachClassLock(F f) {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      if (ShardSpans* const spans = this->spans(static_cast<SizeClass>(i))) spans->ForEachLock(f);
    }
  }

 private:
  friend struct FieldTable;
  friend class ShardMap;

  const size_t number_;
  // Written by ShardMap, each once; read without a lock. Release and acquire: a thread that loads a
  // pointer sees a constructed object.
  std::array<std::atomic<ShardSpans*>, kNumSizeClasses> spans_ = {};
  SpanHome home_;
};

}  // namespace tcmalloc
