// SPDX-License-Identifier: BSD-3-Clause
// SpanStore: code that small programs never run: releasing, unmapping, moving, walks over all
// spans.
#include <algorithm>

#include "base/config.h"
#include "page_heap/release_policy.h"
#include "page_heap/span_home.h"
#include "page_heap/span_store.h"

namespace tcmalloc {

// The most free spans that are compared to choose one to release.
constexpr size_t kSpansLookedAt = 16;
static_assert(kMaxKeptPages <= FreeSpans::kMaxExactPages);

void SpanStore::DeleteMoved(Span* span, Length head, Length moved) {
  NotInUse(span);
  // No part is free before it is cut off; after that it may be joined with its neighbours.
  const PageId first = span->first_page + head;
  span = FreeFront(span, first, SpanState::kFreeBacked);
  span->state.store(SpanState::kUnused, std::memory_order_relaxed);
  FreeBack(span, first + moved, SpanState::kFreeBacked);
  hugepages_.CountReleased(span->pages(), true);
  Insert(span, SpanState::kFreeReleased);
}

Span* SpanStore::TakeForMetadata(Length n, bool may_cut) {
  Span* span = free_[kBacked].FindBestFit(n);
  if (span == nullptr) span = free_[kReleased].FindBestFit(n);
  // Memory that is not zero-filled may be shared with forked children.
  if (span == nullptr || !span->zero_filled) return nullptr;
  if (!may_cut) n = span->num_pages;
  span = Carve(span, {span->first_page, span->first_page + n});
  hugepages_.CountUsed(span->pages(), true);
  span->state.store(SpanState::kMetadata, std::memory_order_relaxed);
  counts.metadata_span_bytes += span->bytes();
  return span;
}

// Each cut writes entries for the two spans beside it into the page map, and so backs pages of the
// map that a long span would not need: with a cut after each slice, a terabyte that was never
// touched would need 0.9 GiB. So a larger part of a long span is cut off at once, but one so small
// that most of the span can be allocated meanwhile.
static Length ReleasedAtOnce(Length n) {
  const Length part(n.pages() / kReleasePart & ~(kHugepagePages.pages() - 1));
  return std::clamp(part, kReleaseSlice, kMaxReleasePart);
}

Span* SpanStore::TakeReleasable(Length limit, bool may_split, bool may_cut) {
  const auto whole_hugepages = [](const Span& span) {
    return PageRange{HugepageStart(span.first_page + kHugepagePages - Length(1)),
                     HugepageStart(span.end())};
  };
  // A span without hugepages, or with a whole one.
  Span* span = free_[kBacked].FindLongestWhere(
      [&](const Span& s) {
        const PageRange whole = whole_hugepages(s);
        return !hugepages_.AreAdvised(s) || whole.first < whole.end;
      },
      kSpansLookedAt);
  const bool splits = span == nullptr;
  if (splits && may_split) span = free_[kBacked].FindLongest();
  if (span == nullptr) return nullptr;
  limit = std::min(limit, ReleasedAtOnce(span->num_pages));
  PageRange range = span->pages();
  if (!splits && hugepages_.AreAdvised(*span)) {
    range = whole_hugepages(*span);
    limit = InWholeHugepages(limit);
  } else if (!splits && hugepages_.WouldSplit(range, range.first)) {
    // Only the first page is in a hugepage that was asked for, which begins before the span.
    range.first = HugepageEnd(range.first);
  }
  if (range.end > range.first + limit) range.end = range.first + limit;
  const PageId last = range.end - Length(1);
  if (!splits && hugepages_.WouldSplit(range, last)) {
    range.end = HugepageEnd(last) <= span->end() ? HugepageEnd(last) : HugepageStart(last);
  }
  if (may_cut) {
    span = Carve(span, range);
  } else {
    Remove(span);
  }
  span->state.store(SpanState::kReleasing, std::memory_order_relaxed);
  counts.releasing_bytes += span->bytes();
  return span;
}

void SpanStore::EndRelease(Span* span, bool released) {
  counts.releasing_bytes -= span->bytes();
  if (released) hugepages_.CountReleased(span->pages(), true);
  Insert(span, released ? SpanState::kFreeReleased : SpanState::kFreeBacked);
}

Span* SpanStore::RemoveLongest(SpanState* state) {
  Span* span = free_[kBacked].FindLongest();
  Span* const released = free_[kReleased].FindLongest();
  if (span == nullptr || (released != nullptr && span->num_pages <= released->num_pages)) {
    span = released;
  }
  if (span == nullptr) return nullptr;
  *state = span->state.load(std::memory_order_relaxed);
  Remove(span);
  span->state.store(SpanState::kUnused, std::memory_order_relaxed);
  page_map_.SetSpan(span->first_page, nullptr);
  page_map_.SetSpan(span->last_page(), nullptr);
  RemoveRegion(span->pages());
  counts.system_bytes -= span->bytes();
  hugepages_.MarkAdvised(span->pages(), false);
  if (*state == SpanState::kFreeReleased) hugepages_.CountReleased(span->pages(), false);
  return span;
}

void SpanStore::RemoveRegion(PageRange range) {
  Span* const region = NearestRegion(range.first);
  TC_CHECK(region != nullptr && region->first_page <= range.first && range.end <= region->end());
  if (range.end < region->end()) {
    Span* const rest = TakeRecord();
    rest->first_page = range.end;
    rest->num_pages = region->end() - range.end;
    regions_.Prepend(rest);
  }
  region->num_pages = range.first - region->first_page;
  if (region->num_pages > Length(0)) return;
  regions_.Remove(region);
  ReturnRecord(region);
}

Span* SpanStore::NearestRegion(PageId page) const {
  Span* nearest = nullptr;
  for (Span* r = regions_.first(); r != nullptr; r = IntrusiveList<Span>::Next(r)) {
    if (r->end() > page && (nearest == nullptr || r->first_page < nearest->first_page)) nearest = r;
  }
  return nearest;
}

bool SpanStore::Owns(PageId page, Length n) const {
  const Span* const nearest = NearestRegion(page);
  return nearest != nullptr && nearest->first_page <= page && nearest->end() - page >= n;
}

size_t SpanStore::ListSpans(PageId from, SpanView* views, size_t n) const {
  size_t found = 0;
  while (found < n) {
    const Span* const region = NearestRegion(from);
    if (region == nullptr) return found;
    // As a rule a span still begins where an earlier call ended.
    const Span* const next = from > region->first_page ? page_map_.SpanOf(from) : nullptr;
    const bool resumes =
        next != nullptr && next->first_page == from && !next->Is(SpanState::kUnused);
    for (PageId page = resumes ? from : region->first_page; page < region->end() && found < n;) {
      const Span* const span = page_map_.SpanOf(page);
      page = span->end();
      if (page <= from) continue;
      views[found++] = {span,
                        span->first_page,
                        span->num_pages,
                        span->state.load(std::memory_order_relaxed),
                        page_map_.ClassOf(span->start_address()),
                        span->object_bytes()};
      from = page;
    }
  }
  return found;
}

void SpanStore::AddFree(PageStats* stats, FreeSpanCounts* lengths) const {
  const FreeSpans& backed = free_[kBacked];
  const FreeSpans& released = free_[kReleased];
  stats->free_backed_bytes = backed.total().bytes();
  stats->free_released_bytes = released.total().bytes();
  stats->free_backed_spans = backed.count();
  stats->free_released_spans = released.count();
  stats->hugepage_bytes = hugepages_.advised() * kHugepageSize;
  if (lengths == nullptr) return;
  *lengths = {};
  lengths->longer = {static_cast<uint32_t>(backed.count()),
                     static_cast<uint32_t>(released.count())};
  lengths->longer_backed_bytes = backed.total().bytes();
  lengths->longer_released_bytes = released.total().bytes();
  for (size_t i = 0; i < FreeSpans::kMaxExactPages; ++i) {
    const Length n(i + 1);
    FreeSpanCounts::Count& count = lengths->exact[i];
    count = {static_cast<uint32_t>(backed.CountExact(n)),
             static_cast<uint32_t>(released.CountExact(n))};
    lengths->longer.backed -= count.backed;
    lengths->longer.released -= count.released;
    lengths->longer_backed_bytes -= n.bytes() * count.backed;
    lengths->longer_released_bytes -= n.bytes() * count.released;
  }
  homes_.ForEach([lengths](const SpanHome& home) {
    if (home.kept.bytes() == 0) return;
    for (size_t i = 0; i < kMaxKeptPages; ++i) {
      lengths->exact[i].backed += static_cast<uint32_t>(home.kept.count(Length(i + 1)));
    }
  });
}

void SpanStore::CheckInvariants() const {
  Walk walk;
  for (const Span* r = regions_.first(); r != nullptr; r = IntrusiveList<Span>::Next(r)) {
    CheckRegion(*r, &walk);
  }
  TC_CHECK(walk.runs == free_runs_.count());                     // P6
  TC_CHECK(walk.listed[kBacked] == free_[kBacked].total());      // P3
  TC_CHECK(walk.listed[kReleased] == free_[kReleased].total());  // P3
  TC_CHECK(walk.in_use.bytes() == counts.small_span_bytes + counts.large_span_bytes +
                                      counts.metadata_span_bytes + counts.releasing_bytes);
  size_t pooled_bytes = 0;
  homes_.ForEach([&](const SpanHome& home) { pooled_bytes += home.pool.bytes(); });
  TC_CHECK(walk.pooled.bytes() == pooled_bytes);  // L1
}

void SpanStore::CheckRegion(const Span& region, Walk* walk) const {
  SpanState previous = SpanState::kUnused;
  uint16_t previous_pool = 0;
  FreeRuns::Run run;
  const auto end_run = [&] {
    if (run.first != run.last) {
      ++walk->runs;
      TC_CHECK(free_runs_.Contains(run));      // P6
      TC_CHECK(run.last->end() == run.end());  // P6
    }
    run = {};
  };
  CountedHugepage hugepage = {region.first_page};
  for (PageId page = region.first_page; page < region.end();) {
    Span* const span = page_map_.SpanOf(page);
    TC_CHECK(span != nullptr && span->first_page == page);              // P1
    TC_CHECK(span->num_pages > Length(0));                              // S1
    TC_CHECK(page_map_.SpanOf(span->last_page()) == span);              // S1
    TC_CHECK((page.index() & (granule_.pages() - 1)) == 0);             // P4
    TC_CHECK((span->num_pages.pages() & (granule_.pages() - 1)) == 0);  // P4
    const SpanState state = span->state.load(std::memory_order_relaxed);
    TC_CHECK(state != SpanState::kUnused);
    if (span->is_free()) {
      TC_CHECK(state != previous);  // P2
      run = {run.first == nullptr ? span : run.first, span};
      TC_CHECK(span->in_run == (run.first != span || FreeNeighbour(span->end()) != nullptr));  // P6
      walk->listed[state == SpanState::kFreeReleased ? kReleased : kBacked] += span->num_pages;
    } else {
      walk->in_use += span->num_pages;
      end_run();
    }
    const uint16_t pool =
        state == SpanState::kKept ? span->owner.load(std::memory_order_relaxed) : uint16_t{0};
    if (pool != 0) {
      TC_CHECK(pool != previous_pool);  // L1
      walk->pooled += span->num_pages;
    }
    previous = state;
    previous_pool = pool;
    CheckHugepages(*span, &hugepage);
    page = span->end();
  }
  end_run();
}

void SpanStore::CheckHugepages(const Span& span, CountedHugepage* counted) const {
  const SpanState state = span.state.load(std::memory_order_relaxed);
  for (PageId page = span.first_page; page < span.end();) {
    TC_CHECK(state != SpanState::kSmall || small_places_.IsMarked(page));  // P7
    const PageId next = std::min(HugepageEnd(page), span.end());
    const auto pages = static_cast<uint16_t>((next - page).pages());
    if (state == SpanState::kFreeReleased) counted->counts.released += pages;
    if (!span.is_free() && state != SpanState::kReleasing) counted->counts.used += pages;
    if (next == HugepageEnd(page)) {
      const Hugepage& hugepage = hugepages_.Of(page);
      if (counted->from == HugepageStart(page)) {
        TC_CHECK(counted->counts.used == hugepage.used);          // P5
        TC_CHECK(counted->counts.released == hugepage.released);  // P5
      }
      *counted = {next};
    }
    page = next;
  }
}

}  // namespace tcmalloc
