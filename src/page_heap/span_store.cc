// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/span_store.h"

#include <algorithm>

#include "base/check.h"
#include "base/compiler.h"

namespace tcmalloc {

Span* SpanStore::TakeRecord() {
  Span* const span = records_.PopFirst();
  TC_CHECK(span != nullptr);
  --num_records_;
  return span;
}

void SpanStore::ReturnRecord(Span* span) {
  span->state.store(SpanState::kUnused, std::memory_order_relaxed);
  records_.Prepend(span);
  ++num_records_;
}

void SpanStore::MarkEnds(Span* span) {
  page_map_.SetSpan(span->first_page, span);
  page_map_.SetSpan(span->last_page(), span);
}

Span* SpanStore::FreeNeighbour(PageId page) const {
  Span* const span = page_map_.SpanOf(page);
  // By P1 and S1 the entry of a neighbouring span's end page is that span.
  if (span == nullptr || !span->is_free()) return nullptr;
  // Outside the heap the entry may be of a span that was unmapped, and its record may be in use
  // for another span.
  return page >= span->first_page && page < span->end() ? span : nullptr;
}

Span* SpanStore::FreeSpanAt(PageId page) const {
  Span* const span = FreeNeighbour(page);
  return span != nullptr && span->first_page == page ? span : nullptr;
}

TC_FAST_PATH bool SpanStore::Join(Span* span, Span* neighbour, SpanState state) {
  if (neighbour == nullptr || !neighbour->Is(state)) return false;
  Remove(neighbour);
  span->first_page = std::min(span->first_page, neighbour->first_page);
  span->num_pages += neighbour->num_pages;
  span->zero_filled &= neighbour->zero_filled;
  ReturnRecord(neighbour);
  return true;
}

void SpanStore::Insert(Span* span, SpanState state) {
  span->state.store(state, std::memory_order_relaxed);
  TC_ASSERT(span->is_free());
  Span* before = FreeNeighbour(span->first_page - Length(1));
  if (Join(span, before, state)) before = FreeNeighbour(span->first_page - Length(1));
  Span* after = FreeNeighbour(span->end());
  if (Join(span, after, state)) after = FreeNeighbour(span->end());
  MarkEnds(span);
  ListOf(span).Insert(span);
  free_runs_.Join(span, before, after);
}

void SpanStore::Remove(Span* span) {
  ListOf(span).Remove(span);
  free_runs_.Leave(span);
}

Span* SpanStore::Split(Span* span, PageId at) {
  TC_ASSERT(at > span->first_page && at < span->end());
  Span* const rest = TakeRecord();
  rest->first_page = at;
  rest->num_pages = span->end() - at;
  rest->zero_filled = span->zero_filled;
  span->num_pages = at - span->first_page;
  MarkEnds(span);
  MarkEnds(rest);
  return rest;
}

Span* SpanStore::FreeFront(Span* span, PageId at, SpanState state) {
  if (at == span->first_page) return span;
  Span* const rest = Split(span, at);
  Insert(span, state);
  return rest;
}

void SpanStore::FreeBack(Span* span, PageId at, SpanState state) {
  if (at < span->end()) Insert(Split(span, at), state);
}

Span* SpanStore::Carve(Span* span, PageRange range) {
  const SpanState state = span->state.load(std::memory_order_relaxed);
  PageRange backed = range;
  Remove(span);
  if (state == SpanState::kFreeReleased) {
    backed.first = std::min(range.first, hugepages_.BackedWith(range.first).first);
    backed.end = std::max(range.end, hugepages_.BackedWith(range.end - Length(1)).end);
    hugepages_.CountReleased(backed, false);
    ++counts.commits;
  }
  // Frees from both ends: first the pieces that keep their state, then those that become backed. No
  // piece is free before it is inserted, so none is joined with the middle.
  span->state.store(SpanState::kUnused, std::memory_order_relaxed);
  span = FreeFront(span, backed.first, state);
  span = FreeFront(span, range.first, SpanState::kFreeBacked);
  FreeBack(span, backed.end, state);
  FreeBack(span, range.end, SpanState::kFreeBacked);
  return span;
}

bool SpanStore::Append(Span* span, Length n) {
  bool fresh = false;
  while (n > Length(0)) {
    Span* const next = FreeSpanAt(span->end());
    TC_CHECK(next != nullptr);
    const bool released = next->Is(SpanState::kFreeReleased);
    const Length taken = std::min(next->num_pages, n);
    Span* const part = Carve(next, {next->first_page, next->first_page + taken});
    span->num_pages += taken;
    n -= taken;
    fresh |= released;
    if (!released || !part->zero_filled) span->in_use.written = span->num_pages;
    span->zero_filled &= part->zero_filled;
    ReturnRecord(part);
  }
  MarkEnds(span);
  return fresh;
}

void SpanStore::Take(const Request& request, const Place& place, Taken* taken) {
  const PageId first = place.span->first_page + place.offset;
  const PageId end = first + request.length;
  bool fresh = place.span->Is(SpanState::kFreeReleased);
  Span* const span = Carve(place.span, {first, std::min(end, place.span->end())});
  span->in_use.written = fresh && span->zero_filled ? Length(0) : span->num_pages;
  if (__builtin_expect(span->end() < end, false)) fresh |= Append(span, end - span->end());
  hugepages_.CountUsed({first, end}, true);
  if (request.home != nullptr) {
    if (request.home->run_end == PageId()) ++homes_in_use_;
    request.home->run_end = end;
  }
  span->state.store(request.use, std::memory_order_relaxed);
  if (request.use == SpanState::kSmall) small_places_.Mark({first, end});
  BytesInUse(request.use) += span->bytes();
  span->in_use.handed_out_ms = request.now_ms;
  if (request.use == SpanState::kLarge) {
    span->sample = nullptr;
    ++counts.large_spans;
  }
  taken->span = span;
  taken->fresh = fresh && !place.by_choice;
}

void SpanStore::Resize(Span* span, Length n) {
  const PageId end = span->first_page + n;
  counts.large_span_bytes += n.bytes() - span->bytes();
  if (end > span->end()) {
    hugepages_.CountUsed({span->end(), end}, true);
    Append(span, end - span->end());
  } else if (end < span->end()) {
    hugepages_.CountUsed({end, span->end()}, false);
    FreeBack(span, end, SpanState::kFreeBacked);
  }
}

void SpanStore::Delete(Span* span) {
  NotInUse(span);
  span->owner.store(0, std::memory_order_relaxed);
  Insert(span, SpanState::kFreeBacked);
}

Span* SpanStore::AddPages(PageRange range, SpanState state, bool zero_filled) {
  AddRegion(range);
  counts.system_bytes += range.bytes();
  counts.peak_system_bytes = std::max(counts.peak_system_bytes, counts.system_bytes);
  if (state == SpanState::kFreeReleased) hugepages_.CountReleased(range, true);
  Span* const span = TakeRecord();
  span->first_page = range.first;
  span->num_pages = range.length();
  span->zero_filled = zero_filled;
  Insert(span, state);
  return span;
}

void SpanStore::AddRegion(PageRange range) {
  Span* const region = TakeRecord();
  region->first_page = range.first;
  region->num_pages = range.length();
  for (Span* next = regions_.first(); next != nullptr;) {
    Span* const other = next;
    next = IntrusiveList<Span>::Next(other);
    if (other->end() != region->first_page && region->end() != other->first_page) continue;
    region->first_page = std::min(region->first_page, other->first_page);
    region->num_pages += other->num_pages;
    regions_.Remove(other);
    ReturnRecord(other);
  }
  regions_.Prepend(region);
}

}  // namespace tcmalloc
