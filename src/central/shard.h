// SPDX-License-Identifier: BSD-3-Clause
// Shard: the part of the central free lists that serves one thread, or a few when there are many:
// the spans of each size class, and what the page heap keeps for them (SpanHome). A thread keeps
// its shard to its end, so no other thread gets objects on its cache lines, and others do not wait
// for its locks. ShardMap constructs and finds shards; CentralFreeList uses what is in them.
//
// States. Without a cache; with the cache of a living thread, or of several; only with caches that
// ended threads left for new ones. Unless a thread lives, others may take all its free objects.
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
#include "page_heap/span_home.h"
#include "page_heap/touch_history.h"

namespace tcmalloc {

// The spans of one size class in one shard. Guarded by Shard::lock of the class.
struct alignas(kCacheLineSize) ShardSpans {
  // What each call touches comes first, in one cache line with the head of `spans`.
  // While no living thread has the shard: one more than the number of the shard whose thread draws
  // on these spans; 0: no thread has yet. Out of date once that shard has no thread either.
  // Written with the lock held, by compare-and-swap of what was read before that, so that two
  // threads do not draw at once. Relaxed: the lock orders what they take.
  std::atomic<uint8_t> drawer{0};
  // How far after this shard, in the circle of numbers, the one is that last served a thread of
  // this one: it is likely to have more. Written by those threads; relaxed: it decides only where a
  // search begins.
  std::atomic<uint8_t> last_source{0};
  // Written with the lock held; read racily for statistics, and for a check without the lock
  // whether the shard has free objects.
  TC_MEMBERS(OwnedCounter free_objects;, OwnedCounter num_spans;)
  OwnedCounter hole_pages;
  // CentralFreeList's count of new spans when a thread of the shard last took objects here.
  // Written by those threads, read by others that look for idle shards. Relaxed: no other data
  // depends on it.
  std::atomic<size_t> used_at{0};
  // Provides its own synchronization.
  TouchHistory touched;
  RankedSpans spans;
};

// The locks of one shard: one for each size class, and that of the kept spans, which has the place
// of SizeClass::kNone. Close together, since fork writes to all of them: the child copies the pages
// with locks, and no others because of them.
struct alignas(kCacheLineSize) ShardLocks {
  struct Lock : SpinLock {
    constexpr Lock() : SpinLock(LockRank::kShard) {}
  };
  std::array<Lock, kNumSizeClasses> locks;
};

class Shard {
 public:
  // `threadless`: the map's set of shards without a living thread, which this one joins.
  Shard(size_t number, ShardLocks& locks, std::atomic<uint64_t>& threadless)
      : number_(number), locks_(&locks), threadless_(threadless), home_(lock(SizeClass::kNone)) {
    threadless_.fetch_or(bit(), std::memory_order_relaxed);
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Less than ShardMap::kMost.
  size_t number() const { return number_; }
  // The shard in a set of shards.
  uint64_t bit() const { return uint64_t{1} << number_; }

  // The lock of the spans of a class; SizeClass::kNone: of the kept spans.
  SpinLock& lock(SizeClass c) const { return locks_->locks[Index(c)]; }
  ShardLocks& locks() const { return *locks_; }
  SpanHome& home() { return home_; }

  // The thread caches that name the shard and that a living thread has. Racy for other callers than
  // the registry.
  size_t num_threads() const { return num_threads_.load(std::memory_order_relaxed); }
  // The CPU on which a thread of the shard last took objects; negative when it is not known. Its
  // hardware caches have what passes through the shard.
  int cpu() const { return cpu_.load(std::memory_order_relaxed); }
  void set_cpu(int cpu) {
    // Threads that free the shard's objects read this cache line.
    if (cpu != this->cpu()) cpu_.store(cpu, std::memory_order_relaxed);
  }
  // Requires: the calls are serialized.
  void AddThread() {
    if (num_threads() == 0) threadless_.fetch_and(~bit(), std::memory_order_relaxed);
    num_threads_.store(num_threads() + 1, std::memory_order_relaxed);
  }
  void RemoveThread() {
    num_threads_.store(num_threads() - 1, std::memory_order_relaxed);
    if (num_threads() == 0) threadless_.fetch_or(bit(), std::memory_order_relaxed);
  }

  // Null until the shard has a span of the class.
  ShardSpans* spans(SizeClass c) const { return spans_[Index(c)].load(std::memory_order_acquire); }

 private:
  friend struct FieldTable;
  friend class ShardMap;

  const size_t number_;
  ShardLocks* const locks_;
  std::atomic<uint64_t>& threadless_;
  // Relaxed: it decides only which shard serves a thread.
  std::atomic<size_t> num_threads_{0};
  // Relaxed: it decides only whether cache lines are likely to be near.
  std::atomic<int> cpu_{-1};
  // Written by ShardMap, each once; read without a lock. Release and acquire: a thread that loads a
  // pointer sees a constructed object.
  std::array<std::atomic<ShardSpans*>, kNumSizeClasses> spans_ = {};
  SpanHome home_;
};

}  // namespace tcmalloc
