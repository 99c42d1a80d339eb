// SPDX-License-Identifier: BSD-3-Clause
// What the page heap keeps for one shard (SpanHome): unused spans of small objects (SpanCache) and
// of large ones (SpanPool), and the place of its next new span.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/counters.h"
#include "base/intrusive.h"
#include "base/tuned.h"
#include "base/units.h"
#include "os/spinlock.h"
#include "page_heap/free_spans.h"
#include "page_heap/page_map.h"
#include "page_heap/page_stats.h"
#include "page_heap/span.h"

namespace tcmalloc {

// The longest span of small objects that a shard keeps, in pages. Not measured.
inline constexpr size_t kMaxKeptPages = Tuned(16, 1, 127);
// While no thread runs idle release, the most bytes that a shard keeps in spans of small objects,
// and the most in spans of large objects. Two threads that each fill and empty 3 MiB take 0.25 s
// with 4 MiB, 0.36 s with 1 MiB (decision 0010).
inline constexpr size_t kUnattendedBytes = Tuned(8_MiB, 0, 64_MiB);

// The kept spans of one shard: short spans that became empty a moment ago, for the next
// request of the same shard. Their memory is likely to be in the CPU's cache, and the page heap's
// lock is not taken. Spans that do not fit are deleted.
//
// Order. Spans that a thread of this shard emptied are handed out last in, first out. Spans that
// another shard's thread emptied come after these, first in, first out: their cache lines are in
// another CPU's cache, and the longer they have been there, the cheaper they are to fetch. (A
// producer and a consumer on two CPUs without a common cache pass 30 million objects per second
// with the newest first, and 40 million in this order.)
//
// Invariants
//   K1  bytes() = sum of the lengths of all spans in the lists; count(n) of them have n pages.
//   K2  The page heap counts the spans as in use (kSmall); their pages have no class.
// Synchronization: the lock of the shard's kept spans, held while a list changes.
class alignas(kCacheLineSize) SpanCache {
 public:
  explicit SpanCache(SpinLock& lock) : lock_(lock) {}

  // Puts up to `most` spans of exactly `n` pages into `spans`; returns how many.
  size_t Take(Length n, Span** spans, size_t most) TC_EXCLUDES(lock_) {
    if (n.pages() > kMaxKeptPages || bytes_.value() == 0) return 0;
    const SpinLockHolder holder(lock_);
    size_t taken = 0;
    while (taken < most && (spans[taken] = PopLocked(n.pages())) != nullptr) ++taken;
    return taken;
  }

  // Keeps the first of `n` spans of equal length, n > 0, as many as fit into `max_bytes`; none if
  // they are too long. Returns how many. `same_shard`: a thread of this shard emptied them.
  [[nodiscard]] size_t Put(Span* const* spans, size_t n, bool same_shard, size_t max_bytes)
      TC_EXCLUDES(lock_) {
    const size_t pages = spans[0]->num_pages.pages();
    if (pages > kMaxKeptPages) return 0;
    const size_t bytes = spans[0]->bytes();
    const SpinLockHolder holder(lock_);
    size_t put = 0;
    for (; put < n && bytes_.value() + bytes <= max_bytes; ++put) {
      bytes_.Add(bytes);
      same_shard ? spans_[pages].Prepend(spans[put]) : spans_[pages].Append(spans[put]);
    }
    counts_[pages].Add(put);
    return put;
  }

  // One of the longest spans; null when there is none.
  Span* TakeAny() TC_EXCLUDES(lock_) {
    if (bytes_.value() == 0) return nullptr;
    const SpinLockHolder holder(lock_);
    for (size_t n = kMaxKeptPages; n > 0; --n) {
      if (Span* const span = PopLocked(n)) return span;
    }
    return nullptr;
  }

  size_t bytes() const { return bytes_.value(); }
  // Spans of exactly `n` pages (n <= kMaxKeptPages).
  size_t count(Length n) const { return counts_[n.pages()].value(); }

 private:
  Span* PopLocked(size_t pages) TC_REQUIRES(lock_) {
    Span* const span = spans_[pages].PopFirst();
    if (span == nullptr) return nullptr;
    bytes_.Subtract(span->bytes());
    counts_[pages].Subtract(1);
    return span;
  }

  SpinLock& lock_;
  std::array<IntrusiveQueue<Span>, kMaxKeptPages + 1> spans_ TC_GUARDED_BY(lock_);
  // Written with lock_ held; read racily for statistics, and to skip an empty cache.
  OwnedCounter bytes_;
  std::array<OwnedCounter, kMaxKeptPages + 1> counts_;
};

// The spans of large objects that one shard keeps for its next use. A request takes a
// part of the shortest kept span that is long enough; a span that comes back is joined with its
// kept neighbours. A pool that lacks memory takes a chunk from the page heap, and the request takes
// the first part of the chunk. So the objects of one shard lie together, and threads on two CPUs
// seldom write to the same cache lines of records and of the page map. Threads on different CPUs
// can replace large objects without the page heap's lock. Memory that was freed a moment ago, and
// is in the CPU's cache, serves the next request of any size. Why not a cache for each size:
// decision 0038.
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
// Synchronization: the lock of the shard's kept spans. A thread that walks over all spans
// (SpanStore::ListSpans) must hold these locks of all shards, too, or be the only thread.

// The most memory that a pool of large objects takes from the page heap at once, and the longest
// object that it keeps. Two threads that replace objects of up to 256 KiB, 32 MiB together, take 64
// ms with spans of their own length, 54 ms with chunks of 256 KiB, and 32 ms with 1 MiB (decision
// 0045).
inline constexpr Length kPoolChunk = TunedLength(1_MiB, 64_KiB, 64_MiB);
// If a pool of large objects lacks memory, the page heap drains the kept spans of all shards only
// if these spans have more than this part of the memory in use. The two threads of kPoolChunk take
// 54 ms if it always drains them, 32 ms with 8, 45 ms with 16; threads that replace objects of up
// to 512 KiB have 7 % more memory with 8, 12 % with 4 (decision 0045).
inline constexpr size_t kLeftToOthersPart = Tuned(8, 2, 256);
// The spare span records of a pool. It returns records when it has more than twice this number.
// They take 14 KiB. Threads that free 250 objects and then allocate 250 need 250 records; with 16,
// such a thread returns or fetches a record for almost each object.
inline constexpr size_t kPoolRecords = 128;

class alignas(kCacheLineSize) SpanPool {
 public:
  explicit SpanPool(SpinLock& lock) : lock_(lock) {}

  // Whether pools keep and serve spans of `n` pages.
  static constexpr bool Serves(Length n) { return n <= kPoolChunk; }

  // Called before the first use. No two pools of a page heap have the same index.
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
  // Takes all spare records but kPoolRecords.
  IntrusiveList<Span> TakeSpareRecords() TC_EXCLUDES(lock_);

  // The owner of the spans that it keeps; constant after Attach.
  uint16_t number() const { return number_; }
  size_t bytes() const TC_NO_THREAD_SAFETY_ANALYSIS { return spans_.total().bytes(); }
  size_t hidden() const { return hidden_.value(); }
  // Adds the kept spans to the counts of their lengths.
  void AddTo(FreeSpanCounts* lengths) TC_EXCLUDES(lock_);

 private:
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

// What the page heap keeps for one shard: unused spans for its next use, and the end of
// its last new span, where its next one is placed. Each shard has its spans in near runs of its own
// (page_heap/span_store.h). SpanHomes: the homes of one page heap.
//
// Ownership: the shard owns its home. A home that was added to a page heap (PageHeap::AddHome)
// stays there for the rest of the page heap's life.
struct SpanHome {
  // `lock`: that of the shard's kept spans.
  explicit SpanHome(SpinLock& lock) : kept(lock), pool(lock) {}
  SpanHome(const SpanHome&) = delete;
  SpanHome& operator=(const SpanHome&) = delete;

  // These take the lock: for the kept spans of small objects, and for those of large ones.
  SpanCache kept;
  SpanPool pool;
  // The end of the home's last new span; PageId() before there is one. Page heap's lock.
  PageId run_end;
  // The home that was added before this one. Constant once this one is added.
  SpanHome* next = nullptr;
};

class SpanHomes {
 public:
  // Requires: no other thread adds a home meanwhile; `home` was not added before.
  void Add(SpanHome& home) {
    count_.Add(1);
    home.next = last_added_.load(std::memory_order_relaxed);
    last_added_.store(&home, std::memory_order_release);
  }
  // The first home for which `ok` holds, in reverse order of adding; null when there is none.
  template <typename Predicate>
  SpanHome* FirstWhere(Predicate ok) const {
    SpanHome* home = last_added_.load(std::memory_order_acquire);
    for (; home != nullptr; home = home->next) {
      CountSteps(Step::kHomeVisited);
      if (ok(*home)) break;
    }
    return home;
  }
  template <typename F>
  void ForEach(F f) const {
    FirstWhere([&f](SpanHome& home) { return f(home), false; });
  }
  size_t count() const { return count_.value(); }
  // The bytes of all kept spans, of small and of large objects.
  size_t KeptBytes() const {
    size_t sum = 0;
    ForEach([&sum](const SpanHome& home) { sum += home.kept.bytes() + home.pool.bytes(); });
    return sum;
  }

 private:
  // Release and acquire: a thread that finds a home sees it constructed.
  std::atomic<SpanHome*> last_added_{nullptr};
  OwnedCounter count_;
};

}  // namespace tcmalloc
