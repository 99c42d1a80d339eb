// SPDX-License-Identifier: BSD-3-Clause
// SpanStore: finds the place for a request.
#include "base/compiler.h"
#include "base/tuning.h"
#include "page_heap/near_run.h"
#include "page_heap/space_policy.h"
#include "page_heap/span_store.h"

namespace tcmalloc {

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
  if (request.alignment <= granule_) return {FullestOfEqual(request, span, kind)};
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

Span* SpanStore::FullestOfEqual(const Request& request, Span* span, FreeKind kind) const {
  if (span == nullptr || !request.in_hugepages) return span;
  return free_[kind].BestOfEqual(
      span, kTuning.hugepages.equals_looked_at, [this](const Span& a, const Span& b) {
        return hugepages_.Of(a.first_page).used > hugepages_.Of(b.first_page).used;
      });
}

// Near runs: page_heap/near_run.h.
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
    if (tight->num_pages < kHugepagePages) return {FullestOfEqual(request, tight, kind)};
  }
  if (run != nullptr) return {run};
  // A span in which another home continues: leaves it a near run, and begins after that.
  if (Span* const beside = free_[kind].FindBestFit(near_run + run_length)) {
    return {beside, near_run};
  }
  return {FullestOfEqual(request, FindRun(n, home, kind), kind)};
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
