// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: what gives memory and address space back to the system.
#include <limits>

#include "page/page_heap.h"

namespace tcmalloc {
namespace {

// Less is not worth its system calls.
constexpr size_t kMinUnmappedWhenShort = size_t{16} << 20;

}  // namespace

void PageHeap::ReleaseAtPace() {
  const Length released = ReleasePass(Length(1), kReleaseSlice, kMaxRefusalsAtPace);
  const SpinLockHolder holder(lock_);
  release_pace_.Released(released);
}

Span* PageHeap::FindLongestFreeLocked() {
  Span* const mapped = free_[kMapped].FindLongest();
  Span* const released = free_[kReleased].FindLongest();
  if (mapped == nullptr || released == nullptr) return mapped != nullptr ? mapped : released;
  return mapped->num_pages > released->num_pages ? mapped : released;
}

void PageHeap::UnmapWhenShort() {
  if (!address_space_is_short_.load(std::memory_order_relaxed)) return;
  const size_t free_bytes = FreePages().bytes();
  if (free_bytes < kMinUnmappedWhenShort || free_bytes < system_bytes_.value() / 2) return;
  UnmapAtLeast(Length::ForBytes(free_bytes - system_bytes_.value() / 4));
}

void PageHeap::UnmapAtLeast(Length n) {
  for (Length total; total < n;) {
    void* const region_memory = arena_.Allocate(sizeof(Region));
    if (region_memory == nullptr) return;
    Region* unused = new (region_memory) Region;
    SpanState state = SpanState::kUnused;
    Span* span;
    {
      const SpinLockHolder holder(lock_);
      span = FindLongestFreeLocked();
      if (span != nullptr) {
        state = span->state.load(std::memory_order_relaxed);
        FreeSpansFor(state).Remove(span);
        span->state.store(SpanState::kUnmapped, std::memory_order_relaxed);
        page_map_.SetSpan(span->first_page, nullptr);
        page_map_.SetSpan(span->last_page(), nullptr);
        unused = RemoveRegionLocked(span->first_page, span->num_pages, unused);
        system_bytes_.Subtract(span->bytes());
      }
    }
    FreeRegions(unused);
    if (span == nullptr) return;
    // The kernel may refuse when there are too many mappings already.
    const bool unmapped = vm_.Unmap(span->start_address(), span->bytes());
    const Length length = span->num_pages;
    if (!unmapped) {
      AddSpan(span, state);
      return;
    }
    total += length;
    const SpinLockHolder holder(lock_);
    ReturnRecordLocked(span);
  }
}

void PageHeap::AddSpan(Span* span, SpanState state) {
  void* const region_memory = arena_.Allocate(sizeof(Region));
  // Without a record for its region the span stays as it is: unmapped to us, mapped to the system.
  if (region_memory == nullptr) return;
  Region* joined;
  {
    const SpinLockHolder holder(lock_);
    system_bytes_.Add(span->bytes());
    joined = AddRegionLocked(new (region_memory) Region{span->first_page, span->num_pages});
    span->state.store(state, std::memory_order_relaxed);
    InsertFreeLocked(span);
  }
  FreeRegions(joined);
}

Length PageHeap::ReleaseAtLeast(Length n) {
  DrainSpanCaches();
  return ReleasePass(n, n, std::numeric_limits<size_t>::max());
}

Length PageHeap::ReleasePass(Length at_least, Length at_most, size_t max_refusals) {
  Length total;
  size_t refusals = 0;
  while (total < at_least && refusals < max_refusals) {
    const SliceResult slice = ReleaseSlice(at_most - total);
    if (slice.length == Length(0)) break;
    if (slice.released) {
      total += slice.length;
    } else {
      ++refusals;
    }
  }
  if (refusals > 0) {
    const SpinLockHolder holder(lock_);
    RestoreLocked(refused_);
  }
  return total;
}

PageHeap::SliceResult PageHeap::ReleaseSlice(Length limit) {
  if (limit > kReleaseSlice) limit = kReleaseSlice;
  limit = RoundUp(limit);
  Span* span = nullptr;
  for (bool may_add_records = true; span == nullptr;) {
    {
      const SpinLockHolder holder(lock_);
      Span* const longest = free_[kMapped].FindLongest();
      if (longest == nullptr) return SliceResult();
      const bool cut = longest->num_pages > limit;
      const bool can_cut = num_records_ > kSpareRecords;
      if (!cut || can_cut || !may_add_records) {
        span = longest;
        free_[kMapped].Remove(span);
        if (cut && can_cut) free_[kMapped].Insert(SplitLocked(span, limit));
        span->state.store(SpanState::kReleasing, std::memory_order_relaxed);
        in_flight_.Prepend(span);
        releasing_bytes_.Add(span->bytes());
      }
    }
    if (span == nullptr) may_add_records = AddRecords();
  }
  const Length n = span->num_pages;
  const bool released = vm_.Release(span->start_address(), span->bytes());
  const SpinLockHolder holder(lock_);
  in_flight_.Remove(span);
  if (!released) {
    refused_.Prepend(span);
    return {n, false};
  }
  releasing_bytes_.Subtract(n.bytes());
  releases_.Add(1);
  released_total_bytes_.Add(n.bytes());
  span->state.store(SpanState::kFreeReleased, std::memory_order_relaxed);
  InsertFreeLocked(span);
  return {n, true};
}

void PageHeap::RestoreLocked(IntrusiveList<Span>& spans) {
  while (Span* const span = spans.PopFirst()) {
    releasing_bytes_.Subtract(span->bytes());
    span->state.store(SpanState::kFreeMapped, std::memory_order_relaxed);
    InsertFreeLocked(span);
  }
}

void PageHeap::RestoreAfterForkInChild() TC_NO_THREAD_SAFETY_ANALYSIS {
  // Whether the pages of those in flight went before the fork is not known.
  RestoreLocked(in_flight_);
  RestoreLocked(refused_);
}

void PageHeap::SetReleaseRate(double rate) {
  const SpinLockHolder holder(lock_);
  release_pace_.SetRate(rate);
}

double PageHeap::release_rate() {
  const SpinLockHolder holder(lock_);
  return release_pace_.rate();
}

}  // namespace tcmalloc
