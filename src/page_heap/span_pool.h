// SPDX-License-Identifier: BSD-3-Clause
// SpanPool: the spans of large objects that one shard keeps for its next use. A request takes a
// part of the shortest kept span that is long enough; a span that comes back is joined with its
// kept neighbours. What a pool lacks comes from the page heap in chunks, and the request takes the
// first part of one: so the objects of one shard lie together, and threads on two CPUs seldom write
// to the same lines of records and of the page map. So threads on different CPUs replace large
// objects without the page heap's lock, and memory that was freed a moment ago, and is in the CPU's
// cache, serves the next request of any size. Why not a cache for each size: decision 0038.
//
// States. A kept span is kKept, and its owner is the number of the pool. The page heap counts the
// span as in use, like a large object. So the pool may change the length and the page-map entries
// of a span that it keeps without the page heap's lock.
//
// Invariants
//   L1  The owner of a span is number_ exactly while it is in `spans_`, and it is kKept then. No
//       code without lock_ stores this owner, so the holder may rely on what it reads of any span.
//       No two of these spans are adjacent.
//   L2  A kept span's pages after the first in_use.written ones were not written since the OS
//       zeroed them.
//   L3  The page heap counts hidden() large objects too many: +1 for each object that became a kept
//       span, -1 for each span that was handed out or given up. Modulo SIZE_MAX + 1: an object that
//       was joined to another may be handed out in two parts.
// Synchronization: the lock of the shard's kept spans. Who walks over all spans
// (SpanStore::ListSpans) must hold those of all shards, too, or be the only thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/counters.h"
#include "base/intrusive_list.h"
#include "base/tuned.h"
#include "base/units.h"
#include "os/spinlock.h"
#include "page_heap/free_spans.h"
#include "page_heap/page_map.h"
#include "page_heap/page_stats.h"
#include "page_heap/span.h"

namespace tcmalloc {

// The longest object that a pool keeps and serves. Not measured.
inline constexpr Length kMaxPooledLength = TunedLength(1_MiB, 64_KiB, 1_GiB);
// The most bytes that a pool keeps while no thread runs idle release. Not measured.
inline constexpr size_t kUnattendedPoolBytes = Tuned(8_MiB, 0, 64_MiB);
// Pages that a pool takes from the page heap at once, if there is a free span of that length. Two
// threads that replace objects of up to 256 KiB, 32 MiB together: 64 ms with spans of their own
// length, 54 ms with 256 KiB, 32 ms with 1 MiB (decision 0045).
inline constexpr Length kPoolChunk = TunedLength(1_MiB, 64_KiB, 64_MiB);
// A pool's request drains the other pools only if they keep more than this part of the memory in
// use. The two threads of kPoolChunk take 54 ms if it always drains them, 32 ms with 8, 45 ms with
// 16; threads that replace objects of up to 512 KiB have 7 % more memory with 8, 12 % with 4
// (decision 0045).
inline constexpr size_t kLeftToOthersPart = Tuned(8, 2, 256);
// The spare span records of a pool. It returns records when it has more than twice this number.
// They take 14 KiB. Threads that free 250 objects and then allocate 250 need 250 records; with 16,
// such a thread returns or fetches a record for almost each object.
inline constexpr size_t kPoolRecords = 128;

class alignas(kCacheLineSize) SpanPool {
 public:
  explicit SpanPool(SpinLock& lock) : lock_(lock) {}

  // Whether pools keep and serve spans of `n` pages.
  static constexpr bool Serves(Length n) { return n <= kMaxPooledLength; }

  // Before the first use. No two pools of a page heap have the same index.
  void Attach(PageMap& page_map, size_t index) {
    page_map_ = &page_map;
    number_ = static_cast<uint16_t>(Span::kFirstPool + index);
  }

  // A span of `n` pages, as a large object; null when there is none. `now_ms`: see Span::in_use.
  Span* TryTake(Length n, int64_t now_ms) TC_EXCLUDES(lock_);
  // Keeps the span, which is kKept and has no owner.
  void Put(Span* span) TC_EXCLUDES(lock_);
  // Lets the large object at `p`, in `span`, grow to `n` pages into the kept span after it. False,
  // and nothing is changed, when that one is too short, or when `span` is no such object. The
  // object's sample: as PageHeap::DeleteLargeAt.
  [[nodiscard]] bool TryExtend(Span* span, const void* p, Length n, void** sample)
      TC_EXCLUDES(lock_);
  // Calls give(span) with the longest span, kKept and without an owner, if more than `max_bytes`
  // are kept and the span has at least `n` pages. The lock is held until the span has its next
  // place: a child that is forked meanwhile does not lose it, which may be all that the pool kept.
  template <typename F>
  void GiveLongest(size_t max_bytes, Length n, F give) TC_EXCLUDES(lock_) {
    if (bytes() <= max_bytes) return;
    const SpinLockHolder holder(lock_);
    Span* const span = spans_.FindLongest();
    if (span == nullptr || span->num_pages < n) return;
    RemoveLocked(span);
    hidden_.Subtract(1);
    give(span);
  }

  // Cutting a span off takes a record, and joining frees one. Racy.
  bool needs_records() const { return num_records_.value() == 0; }
  bool has_spare_records() const { return num_records_.value() > 2 * kPoolRecords; }
  void AddRecords(IntrusiveList<Span>* records) TC_EXCLUDES(lock_);
  // Takes all but kPoolRecords.
  IntrusiveList<Span> TakeSpareRecords() TC_EXCLUDES(lock_);

  // The owner of the spans that it keeps; constant after Attach.
  uint16_t number() const { return number_; }
  size_t bytes() const TC_NO_THREAD_SAFETY_ANALYSIS { return spans_.total().bytes(); }
  size_t hidden() const { return hidden_.value(); }
  // Adds the kept spans to the counts of their lengths.
  void AddTo(FreeSpanCounts* lengths) TC_EXCLUDES(lock_);

 private:
  friend struct FieldTable;

  void InsertLocked(Span* span) TC_REQUIRES(lock_);
  void RemoveLocked(Span* span) TC_REQUIRES(lock_);
  // The kept span that `page` is the first or the last of; null when there is none.
  Span* KeptAt(PageId page) const TC_REQUIRES(lock_);
  void JoinLocked(Span* span, Span* neighbour) TC_REQUIRES(lock_);
  bool ExtendLocked(Span* span, Length n) TC_REQUIRES(lock_);
  // Makes the record of a span that is no longer one a spare record.
  void DropLocked(Span* record) TC_REQUIRES(lock_);

  SpinLock& lock_;
  // Constant after Attach.
  PageMap* page_map_ = nullptr;
  uint16_t number_ = 0;
  FreeSpans spans_ TC_GUARDED_BY(lock_);
  IntrusiveList<Span> records_ TC_GUARDED_BY(lock_);
  // Written with lock_ held; read racily.
  OwnedCounter hidden_;
  OwnedCounter num_records_;
};

}  // namespace tcmalloc
