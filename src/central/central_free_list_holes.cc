// SPDX-License-Identifier: BSD-3-Clause
// CentralFreeList: claiming the objects in holes while HoleRelease releases the memory.
#include "base/check.h"
#include "central/central_free_list.h"
#include "central/span_holes.h"

namespace tcmalloc {

bool CentralFreeList::ClaimHoles(Span* span, SpanOwner owner, size_t hardware_page_size,
                                 HoleClaims* claims, PageId* page) {
  static_assert(HoleClaims::kMaxHoles >= kMaxSmallSpanBytes / 4096 / 2);
  const PageId looked_at = *page;
  *page += Length(1);
  const Shard* const shard = shards_.At(owner.shard());
  if (shard == nullptr) return true;
  const SpanMeasures measures = {object_size_, objects_per_span_, hardware_page_size,
                                 span_pages_.bytes() / hardware_page_size};
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
  Shard& shard = *shards_.At(number);
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
