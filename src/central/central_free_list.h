// SPDX-License-Identifier: BSD-3-Clause
// CentralFreeList: the spans of one size class and, per span, a bitmap of its free objects.
//
// Role. Cuts spans into objects, takes objects back, returns a span to the page heap as soon as all
// its objects are free. Objects are handed out from the span with the fewest free ones, so that
// emptying spans empty, and in the order of their addresses. It never writes into an object.
// Invariants
//   C1  A span is in spans_[r] exactly when it has free objects and RankOf(free_count) == r; a span
//   without free
//       objects is in no list; a span with only free objects is not here.
//   C2  free_objects_ = sum of free_count over the spans; num_spans_ counts all spans of the class.
// Misuse. A second free of an object finds its bit set; a pointer that is no object start has no
// index. Both abort with one line, after the lock is released. Synchronization. LockRank::kCentral,
// one lock per class; the page heap and the arena are called without it. Cost. One lock per call
// and a few nanoseconds per object.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/intrusive_list.h"
#include "base/size_classes.h"
#include "central/misuse.h"
#include "os/spinlock.h"
#include "page/metadata_arena.h"
#include "page/page_heap.h"
#include "page/page_map.h"
#include "page/span.h"

namespace tcmalloc {

class CentralFreeList {
 public:
  CentralFreeList(SizeClass size_class, PageHeap& page_heap, PageMap& page_map,
                  MetadataArena& arena);

  // Puts up to `n` free objects into `objects`, in the order of their addresses within each span,
  // and returns how many: fewer than `n`, but at least 1, where it would need a further span; 0
  // when the system gives no memory.
  size_t Remove(void** objects, size_t n) TC_EXCLUDES(lock_);

  // Takes `n` objects of the class back.
  void Insert(void* const* objects, size_t n) TC_EXCLUDES(lock_);

  size_t free_objects() const { return free_objects_.value(); }
  size_t num_spans() const { return num_spans_.value(); }
  size_t objects_per_span() const { return objects_per_span_; }
  size_t object_size() const { return object_size_; }
  size_t span_bytes() const { return span_pages_.bytes(); }
  // Bytes of the class's spans that are in no object.
  size_t tail_bytes() const {
    return num_spans() * (span_bytes() - objects_per_span_ * object_size_);
  }

  void CheckInvariants() TC_EXCLUDES(lock_);
  SpinLock& lock() { return lock_; }

 private:
  // Spans by their number of free objects, in powers of two: fine enough to tell a nearly full span
  // from a nearly empty one, coarse enough that a span changes lists rarely.
  static constexpr size_t kNumRanks = 15;
  static size_t RankOf(size_t free_count) {
    return static_cast<size_t>(std::bit_width(free_count));
  }

  // A new span of the class with all objects free, in no list; null when the system gives no
  // memory.
  Span* NewSpan() TC_EXCLUDES(lock_);
  void DeleteSpan(Span* span) TC_EXCLUDES(lock_);
  size_t RemoveLocked(void** objects, size_t n) TC_REQUIRES(lock_);
  size_t TakeFromSpan(Span* span, void** objects, size_t n);
  bool IsSpanOfClass(const Span* span, const void* p) const;
  // Takes back the first objects of `objects` that lie in `span`; returns how many. Stops at one
  // that is no object, or free already, and says so in `misuse`.
  size_t SetBits(Span* span, void* const* objects, size_t n, Misuse* misuse);
  // The same for the span that the first object lies in, which is then put where it belongs: into
  // the list of its rank, or, when all its objects are free, in front of `emptied`.
  size_t InsertRunLocked(void* const* objects, size_t n, Span** emptied, Misuse* misuse)
      TC_REQUIRES(lock_);
  void AddToRank(Span* span) TC_REQUIRES(lock_) { spans_[RankOf(span->free_count)].Prepend(span); }
  void MoveToRank(Span* span, size_t old_rank) TC_REQUIRES(lock_);

  // Constant after construction.
  const SizeClass size_class_;
  const size_t object_size_;
  const Length span_pages_;
  const size_t objects_per_span_;
  PageHeap& page_heap_;
  PageMap& page_map_;
  MetadataArena& arena_;

  SpinLock lock_{LockRank::kCentral};
  std::array<IntrusiveList<Span>, kNumRanks> spans_ TC_GUARDED_BY(lock_);

  // Written with lock_ held; read racily for statistics.
  OwnedCounter free_objects_;
  OwnedCounter num_spans_;
};

}  // namespace tcmalloc
