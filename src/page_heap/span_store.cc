// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/span_store.h"

#include <algorithm>

#include "base/compiler.h"
#include "base/config.h"

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

// The place for a request.

// Backed memory is preferred. Where the heap has much more address space than was ever needed, a
// large object takes the tighter fit instead, backed or released: see SavesSpace.
SpanStore::Place SpanStore::FindPlace(const Request& request, bool backed_only) const {
  const Place backed = FindOfKind(request, kBacked);
  if (backed.span == nullptr) return backed_only ? Place() : FindFresh(request);
  if (request.use != SpanState::kLarge || backed.span->num_pages == request.length) return backed;
  const Length system(counts.system_bytes >> kPageShift);
  if (!SavesSpace(system, most_in_use_, spare_space_)) return backed;
  Place fresh = FindFresh(request);
  if (fresh.span == nullptr || FreeAround(backed.span) <= FreeAround(fresh.span)) return backed;
  fresh.by_choice = true;
  return fresh;
}

// Goals, in this order: use little address space, by best fit among all free memory, however much
// of it is backed; then back little memory, by using runs, since each contains some backed memory.
// Spans for small objects stay near their shard's others where they can, and take a run only before
// the heap would grow.
SpanStore::Place SpanStore::FindFresh(const Request& request) const {
  const Place released = FindOfKind(request, kReleased);
  if (free_runs_.count() == 0 || (released.span != nullptr && request.home != nullptr)) {
    return released;
  }
  const Place in_run = FindInRun(request);
  if (in_run.span == nullptr) return released;
  if (released.span == nullptr) return in_run;
  return FreeAround(in_run.span) <= FreeAround(released.span) ? in_run : released;
}

SpanStore::Place SpanStore::FindOfKind(const Request& request, FreeKind kind) const {
  if (request.home != nullptr) return FindNear(request, kind);
  // A span of this length contains an aligned range wherever it starts.
  Span* const span = free_[kind].FindBestFit(request.length + request.alignment - granule_);
  if (span == nullptr) return {};
  if (request.alignment <= granule_) return {span};
  const size_t misalignment = span->first_page.index() & (request.alignment.pages() - 1);
  return {span, misalignment == 0 ? Length(0) : request.alignment - Length(misalignment)};
}

TC_SLOW_PATH SpanStore::Place SpanStore::FindInRun(const Request& request) const {
  const Length n = request.length;
  const FreeRuns::Run run = free_runs_.FindBestFit(n + request.alignment - granule_);
  if (run.first == nullptr) return {};
  const uintptr_t mask = request.alignment.pages() - 1;
  const PageId lowest((run.first->first_page.index() + mask) & ~mask);
  const PageId highest((run.end() - n).index() & ~mask);
  Span* span = run.first;
  while (lowest >= span->end()) span = FreeNeighbour(span->end());
  const Place at_front = {span, lowest - span->first_page};
  span = run.last;
  while (highest < span->first_page) span = FreeNeighbour(span->first_page - Length(1));
  const Place at_end = {span, highest - span->first_page};
  return FreshPages(at_front, n) <= FreshPages(at_end, n) ? at_front : at_end;
}

Length SpanStore::FreshPages(const Place& place, Length n) const {
  const Span* span = place.span;
  PageId page = span->first_page + place.offset;
  const PageId end = page + n;
  for (Length fresh;; span = FreeNeighbour(page)) {
    const PageId next = span->end() < end ? span->end() : end;
    if (span->Is(SpanState::kFreeReleased)) {
      fresh += hugepages_.BackedWith(next - Length(1)).end - hugepages_.BackedWith(page).first;
    }
    if (next == end) return fresh;
    page = next;
  }
}

bool SpanStore::CanExtend(const Span& span, Length more, Length* fresh) const {
  Span* const next = FreeSpanAt(span.end());
  if (next == nullptr || FreeAround(next) < more) return false;
  *fresh = FreshPages({next}, more);
  return true;
}

// Near runs: page_heap/span_store.h.
SpanStore::Place SpanStore::FindNear(const Request& request, FreeKind kind) const {
  const SpanHome& home = *request.home;
  const Length n = request.length;
  const PageId end = home.run_end;
  Span* const next = FreeSpanAt(end);
  if (next != nullptr && next->Is(SpanState::kFreeReleased) == (kind == kReleased) &&
      next->num_pages >= n) {
    return {next};
  }
  const Length near_run = NearRun(in_use(), homes_in_use_);
  const Length run_length = n > near_run ? n : near_run;
  Span* const run = FindRun(run_length, home, kind);
  if (run != nullptr && request.in_hugepages && run->num_pages >= kHugepagePages) {
    // Spans with a whole hugepage are not cut while a shorter one fits.
    Span* const tight = FindRun(n, home, kind);
    if (tight->num_pages < kHugepagePages) return {tight};
  }
  if (run != nullptr) return {run};
  // A span in which another home continues: leaves it a near run, and begins after that.
  if (Span* const beside = free_[kind].FindBestFit(near_run + run_length)) {
    return {beside, near_run};
  }
  return {FindRun(n, home, kind)};
}

Span* SpanStore::FindRun(Length n, const SpanHome& home, FreeKind kind) const {
  Span* run = free_[kind].FindBestFit(n);
  const auto goes_on_in = [&](const SpanHome& other) {
    return &other != &home && other.run_end == run->first_page;
  };
  // Tries longer and longer spans. Each step skips a span of another home, so there are no more
  // steps than homes.
  while (run != nullptr && homes_.FirstWhere(goes_on_in) != nullptr) {
    run = free_[kind].FindBestFit(run->num_pages + Length(1));
  }
  return run;
}

}  // namespace tcmalloc
