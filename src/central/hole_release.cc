// SPDX-License-Identifier: BSD-3-Clause
#include "central/hole_release.h"

#include <new>

#include "base/config.h"
#include "central/central_free_list.h"
#include "central/hole_claims.h"
#include "page_heap/span.h"

namespace tcmalloc {

size_t HoleRelease::ReleaseAll() {
  void* const memory = arena_.Allocate(sizeof(HoleClaims));
  if (memory == nullptr) return 0;
  HoleClaims* const claims = new (memory) HoleClaims;
  {
    const SpinLockHolder holder(lock_);
    in_flight_.Prepend(claims);
  }
  size_t bytes = 0;
  for (PageRange part{}; page_heap_.store()->FindSmall(&part);) {
    while (part.first < part.end) {
      if (!ClaimAt(&part.first, claims)) bytes += ReleaseClaims(claims);
    }
  }
  bytes += ReleaseClaims(claims);
  {
    const SpinLockHolder holder(lock_);
    in_flight_.Remove(claims);
  }
  arena_.Free(claims, sizeof(HoleClaims));
  return bytes;
}

bool HoleRelease::ClaimAt(PageId* page, HoleClaims* claims) {
  if (page_map_.ClassOf(page->start_address()) != SizeClass::kNone) {
    // Both are hints: ClaimHoles checks them under the lock that they lead to.
    Span* const span = page_map_.SpanOf(*page);
    const SpanOwner owner = span != nullptr ? SpanOwner::Of(span) : SpanOwner();
    if (owner.counted()) {
      return central_.free_list(owner.size_class())
          .ClaimHoles(span, owner, HardwarePageSize(), claims, page);
    }
  }
  *page += Length(1);
  return true;
}

bool HoleRelease::Release(uintptr_t start, size_t bytes) {
  page_heap_.address_space().StopHugepagesAt(PageId(start >> kPageShift), true);
  page_heap_.address_space().StopHugepagesAt(PageId((start + bytes - 1) >> kPageShift), true);
  const bool released = vm_.Release(reinterpret_cast<void*>(start), bytes);
  if (released) releases_.Add(1);
  return released;
}

size_t HoleRelease::ReleaseClaims(HoleClaims* claims) {
  using Entry = HoleClaims::Entry;
  size_t released = 0;
  for (Entry* first = claims->begin(); first != claims->end();) {
    const uintptr_t start = StartOf(*first);
    size_t bytes = BytesOf(*first);
    Entry* next = first + 1;
    for (; next != claims->end() && StartOf(*next) == start + bytes; ++next)
      bytes += BytesOf(*next);
    if (Release(start, bytes)) {
      released += bytes;
      first = next;
      continue;
    }
    // A part of the range may be locked in memory: release the holes one by one.
    for (const bool alone = next == first + 1; first != next; ++first) {
      if (!alone && Release(StartOf(*first), BytesOf(*first))) {
        released += BytesOf(*first);
      } else {
        first->hole.num_pages = 0;
      }
    }
  }
  const size_t known = claims->known_pages() * HardwarePageSize();
  ReturnClaims(claims);
  const size_t fresh = released > known ? released - known : 0;
  released_total_bytes_.Add(fresh);
  return fresh;
}

void HoleRelease::ReturnClaims(HoleClaims* claims) {
  while (!claims->empty()) {
    const SizeClass c = SpanOwner::Of(claims->begin()->span).size_class();
    central_.free_list(c).ReturnHolesOfOneSpan(claims);
  }
  const SpinLockHolder holder(lock_);
  claims->Reset();
}

void HoleRelease::ReturnOthersInChild() {
  for (;;) {
    HoleClaims* claims;
    {
      const SpinLockHolder holder(lock_);
      claims = in_flight_.first();
      // A signal handler may have forked during this thread's own release, which then continues.
      while (claims != nullptr && claims->thread == ThisThreadNumber()) {
        claims = IntrusiveList<HoleClaims>::Next(claims);
      }
      if (claims != nullptr) in_flight_.Remove(claims);
    }
    if (claims == nullptr) return;
    // It is not known whether the memory was released before the fork.
    for (HoleClaims::Entry& entry : *claims) entry.hole.num_pages = 0;
    ReturnClaims(claims);
    arena_.Free(claims, sizeof(HoleClaims));
  }
}

size_t HoleRelease::hole_bytes() {
  // Holes are counted only after a release.
  if (releases() == 0) return 0;
  size_t pages = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    pages += central_.free_list(static_cast<SizeClass>(i)).hole_pages();
  }
  return pages * HardwarePageSize();
}

// CentralFreeList: claiming the objects in holes while HoleRelease releases the memory.

bool CentralFreeList::ClaimHoles(Span* span, SpanOwner owner, size_t hardware_page_size,
                                 HoleClaims* claims, PageId* page) {
  static_assert(HoleClaims::kMaxHoles >= kMaxSmallSpanBytes / 4096 / 2);
  const PageId looked_at = *page;
  *page += Length(1);
  const Shard* const shard = parts_.shards.At(owner.shard());
  if (shard == nullptr) return true;
  const SpanMeasures measures = {object_size_, objects_per_span_, hardware_page_size,
                                 span_bytes() / hardware_page_size};
  const SpinLockHolder holder(LockOf(*shard));
  if (SpanOwner::Of(span) != owner) return true;
  if (!span->Contains(looked_at.start_address())) return true;
  ShardSpans& spans = *shard->spans(size_class_);
  *page = span->first_page + span->num_pages;
  size_t pages = 0;
  ForEachHole(span->free_bits, measures, [&](const SpanHole& hole) { pages += hole.num_pages; });
  // Since hole_pages was counted, objects only came back: the same number means the same pages.
  if (pages == span->hole_pages) return true;
  if (!claims->HasRoomFor(measures.MostHoles())) {
    *page = looked_at;
    return false;
  }
  const RankedSpans::Place place = PlaceOf(span);
  uint32_t claimed = 0;
  const HoleClaims::Entry* entry = claims->end();
  ForEachHole(span->free_bits, measures, [&](const SpanHole& hole) {
    claims->Add(span, hole, hardware_page_size);
    claimed += hole.num_objects;
  });
  for (; entry != claims->end(); ++entry) {
    ForEachWordOfRange(entry->hole.first_object, entry->hole.num_objects,
                       [span](size_t w, uint64_t mask) { span->free_bits[w] &= ~mask; });
  }
  claims->AddKnown(span->hole_pages);
  ForgetHolesLocked(spans, span);
  span->free_count -= claimed;
  spans.free_objects.Subtract(claimed);
  spans.spans.Move(span, place, PlaceOf(span));
  return true;
}

size_t CentralFreeList::ReturnRangeLocked(Span* span, size_t first, size_t n,
                                          bool* no_longer_split) {
  size_t freed_twice = kNoObject;
  ForEachWordOfRange(first, n, [&](size_t w, uint64_t mask) {
    const uint64_t word = span->free_bits[w];
    if ((word & mask) != 0 && freed_twice == kNoObject) {
      freed_twice = w * kBitsPerWord + static_cast<size_t>(std::countr_zero(word & mask));
    }
    span->free_bits[w] = word | mask;
    if (w < span->first_free_word) span->first_free_word = static_cast<uint16_t>(w);
    if (w < span->first_whole_word && WholeGroups(span, w) != 0) {
      *no_longer_split |= IsSplit(span);
      span->first_whole_word = static_cast<uint16_t>(w);
    }
  });
  span->free_count += static_cast<uint32_t>(n);
  return freed_twice;
}

void CentralFreeList::ReturnHolesOfOneSpan(HoleClaims* claims) {
  // Some of its objects are claimed, so the span and its owner stay.
  Span* const span = claims->begin()->span;
  const size_t number = SpanOwner::Of(span).shard();
  Shard& shard = *parts_.shards.At(number);
  ShardSpans& spans = *shard.spans(size_class_);
  Span* emptied = nullptr;
  size_t freed_twice = kNoObject;
  {
    const SpinLockHolder holder(LockOf(shard));
    TC_ASSERT(SpanOwner::Of(span) == SpanOwner(size_class_, number, true));
    const uint32_t old_count = span->free_count;
    bool no_longer_split = false;
    size_t pages = 0;
    for (; !claims->empty() && claims->begin()->span == span; claims->RemoveFirst()) {
      const SpanHole& hole = claims->begin()->hole;
      const size_t found =
          ReturnRangeLocked(span, hole.first_object, hole.num_objects, &no_longer_split);
      if (freed_twice == kNoObject) freed_twice = found;
      pages += hole.num_pages;
    }
    if (freed_twice == kNoObject) {
      span->hole_pages = static_cast<uint16_t>(span->hole_pages + pages);
      spans.hole_pages.Add(pages);
      spans.free_objects.Add(span->free_count - old_count);
      spans.free_objects.Subtract(RelistLocked(spans, span, old_count, no_longer_split, &emptied));
      Disown(number, emptied);
    }
  }
  if (freed_twice != kNoObject) {
    const uintptr_t address = span->first_page.start_uintptr() + freed_twice * object_size_;
    ReportMisuse(Misuse::kDoubleFree, reinterpret_cast<void*>(address), object_size_);
  }
  if (emptied != nullptr) DeleteSpans(shard, emptied);
}

}  // namespace tcmalloc
