// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: the spans that are kept for shards (SpanCache, SpanPool): when one is kept, handed out
// again, or taken back.
#include <algorithm>

#include "base/compiler.h"
#include "base/config.h"
#include "page_heap/page_heap.h"
#include "page_heap/span_home.h"

namespace tcmalloc {

// The most kept spans of other shards that one request drains. Draining one at a time would mix the
// shards' memory span by span (decision 0010).
constexpr size_t kDrainedAtOnce = 32;

Span* PageHeap::New(Length n, SpanState use, Length alignment, SpanHome* keeper) {
  if (keeper == nullptr || !SpanPool::Serves(n) || !MayKeep()) {
    return Allocate({.length = n, .alignment = alignment, .use = use});
  }
  TC_ASSERT(use == SpanState::kLarge && alignment == Length(1));
  n = RoundUp(n);
  SpanPool& pool = keeper->pool;
  if (pool.needs_records()) AddRecords(pool);
  if (Span* const span = pool.TryTake(n, now_ms_())) return span;
  const Length chunk = kPoolChunk;
  const size_t most = MayKeepBytes(pool.bytes(), chunk.bytes());
  const bool may_keep = pool.bytes() + chunk.bytes() <= most;
  Span* const span = Allocate({.length = n, .use = use, .chunk = may_keep ? chunk : n});
  if (span == nullptr || span->num_pages == n) return span;
  // The program may free an object that was here before once more, by mistake.
  if (span->ClaimLargeAt(span->start_address())) {
    pool.Put(span);
    if (Span* const part = pool.TryTake(n, now_ms_())) return part;
  }
  // Other threads of this shard took the records, or the memory.
  return Allocate({.length = n, .use = use});
}

Span* PageHeap::NewSampled(SizeClass c) {
  Span* const span = New(Length::ForBytes(kSizeClasses.size(c)), SpanState::kLarge);
  if (span == nullptr) return nullptr;
  span->sampled_class.store(c, std::memory_order_relaxed);
  state_.sampled.Add(c);
  return span;
}

bool PageHeap::ExtendFromPool(Span* span, const void* p, Length n, void** sample) {
  if (!span->IsLargeAt(p) || n <= span->num_pages) return false;
  const Span* const next = page_map_.SpanOf(span->end());
  if (next == nullptr) return false;
  const uint16_t owner = next->owner.load(std::memory_order_relaxed);
  SpanHome* const home = state_.homes.FirstWhere(
      [owner](const SpanHome& other) { return other.pool.number() == owner; });
  return home != nullptr && home->pool.TryExtend(span, p, n, sample);
}

bool PageHeap::DeleteLargeAt(Span* span, const void* p, void** sample, SpanHome* keeper) {
  if (keeper != nullptr && SpanPool::Serves(span->num_pages) && MayKeep()) {
    return KeepLargeAt(span, p, sample, keeper->pool);
  }
  Length freed;
  {
    const SpinLockHolder holder(state_.lock);
    if (!span->ClaimLargeAt(p)) return false;
    TakeSample(span, sample);
    freed = state_.governor.NoteFreed(span->num_pages);
    state_.store.Delete(span);
  }
  ReleaseAfterFreeing(freed);
  return true;
}

bool PageHeap::KeepLargeAt(Span* span, const void* p, void** sample, SpanPool& pool) {
  if (!span->ClaimLargeAt(p)) return false;
  TakeSample(span, sample);
  span->in_use.written = span->num_pages;
  const size_t most = MayKeepBytes(pool.bytes(), span->bytes());
  pool.Put(span);
  if (pool.has_spare_records()) TakeRecords(pool);
  while (DeleteLongest(pool, most) > 0) {
  }
  return true;
}

size_t PageHeap::DeleteLongest(SpanPool& pool, size_t max_bytes, Length n) {
  size_t bytes = 0;
  Length freed;
  const auto free_span = [&](Span* span) {
    bytes = span->bytes();
    const SpinLockHolder holder(state_.lock);
    freed = state_.governor.NoteFreed(span->num_pages);
    state_.store.Delete(span);
  };
  pool.GiveLongest(max_bytes, n, free_span);
  if (bytes > 0) ReleaseAfterFreeing(freed);
  return bytes;
}

TC_SLOW_PATH void PageHeap::AddRecords(SpanPool& pool) {
  // Without records the pool serves only requests of the exact length.
  IntrusiveList<Span> records;
  static_cast<void>(state_.WithRecords([&]() TC_REQUIRES(state_.lock) {
    for (size_t i = 0; i < SpanStore::kRecordsPerOperation; ++i) {
      records.Prepend(state_.store.TakeRecord());
    }
  }));
  pool.AddRecords(&records);
}

TC_SLOW_PATH void PageHeap::TakeRecords(SpanPool& pool) {
  IntrusiveList<Span> records = pool.TakeSpareRecords();
  const SpinLockHolder holder(state_.lock);
  while (Span* const record = records.PopFirst()) state_.store.ReturnRecord(record);
}

size_t PageHeap::NewFromCache(Length n, SpanHome& home, Span** spans, size_t most) {
  const size_t count = home.kept.Take(RoundUp(n), spans, most);
  if (count == 0) return 0;
  const int64_t now_ms = now_ms_();
  for (size_t i = 0; i < count; ++i) {
    spans[i]->in_use.written = spans[i]->num_pages;
    spans[i]->in_use.handed_out_ms = now_ms;
  }
  return count;
}

void PageHeap::DeleteToCache(Span* const* spans, size_t n, SpanHome& home, bool same_shard) {
  size_t kept = 0;
  if (MayKeep()) {
    const size_t most = MayKeepBytes(home.kept.bytes(), n * spans[0]->bytes());
    kept = home.kept.Put(spans, n, same_shard, most);
  }
  for (; kept < n; ++kept) Delete(spans[kept]);
}

size_t PageHeap::DrainOne(SpanHome& home) {
  Span* const span = home.kept.TakeAny();
  if (span == nullptr) return DeleteLongest(home.pool);
  const size_t bytes = span->bytes();
  Delete(span);
  return bytes;
}

// One span at a time: no lock is held for long, and a fork meanwhile loses at most one span of
// small objects in the child.
size_t PageHeap::DrainSpanCaches() {
  size_t bytes = 0;
  state_.homes.ForEach([&](SpanHome& home) {
    // Drains only as much as is kept now. Threads that use the home may keep spans faster than this
    // one takes them, so a drain until the home is empty might end only when they do.
    for (size_t left = home.kept.bytes() + home.pool.bytes(); left > 0;) {
      const size_t taken = DrainOne(home);
      if (taken == 0) break;
      bytes += taken;
      left -= std::min(left, taken);
    }
  });
  return bytes;
}

size_t PageHeap::Drain(size_t most) {
  size_t bytes = 0;
  for (; most > 0; --most) {
    size_t taken = 0;
    state_.homes.FirstWhere([&](SpanHome& home) { return (taken = DrainOne(home)) > 0; });
    if (taken == 0) break;
    bytes += taken;
  }
  return bytes;
}

size_t PageHeap::DrainFor(const Request& request) {
  // One kept span may be enough: it can be cut, or joined with its neighbours.
  if (request.home == nullptr) {
    size_t bytes = 0;
    state_.homes.FirstWhere([&](SpanHome& home) {
      bytes = DeleteLongest(home.pool, 0, request.length);
      return bytes > 0;
    });
    if (bytes > 0) return bytes;
    const bool is_short = request.length.pages() <= kMaxKeptPages;
    if (is_short) return Drain(1);
    DrainSpanCaches();
    return 0;
  }
  Span* const own = request.home->kept.TakeAny();
  // Several spans of other homes at once: one at a time would interleave the shards' spans (see
  // NearRun).
  if (own == nullptr) return Drain(kDrainedAtOnce);
  const size_t bytes = own->bytes();
  Delete(own);
  return bytes;
}

}  // namespace tcmalloc
