// SPDX-License-Identifier: BSD-3-Clause
// SpanStore: where a request goes.
#include "base/compiler.h"
#include "base/tuning.h"
#include "page/near_run.h"
#include "page/space_policy.h"
#include "page/span_store.h"

namespace tcmalloc {

// Backed memory comes first. Where there is much more address space than was ever needed, large
// objects take it only where nothing tighter is free: see SavesSpace.
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

// Goals, in this order: little address space, which best fit among all free memory is good for,
// however much of it is backed; then little fresh memory, which the runs are good for, since each
// has some that is backed. For small objects the rule where in a shard's memory they are comes
// first, and a run is what is left before the heap grows.
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
  // A span this long holds an aligned run wherever it starts.
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
      fresh += hugepages_.BackedWith(*span, next - Length(1), Length(0)).end -
               hugepages_.BackedWith(*span, page, Length(0)).first;
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

// Runs of homes: page/near_run.h.

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
    // Whole hugepages are left alone as long as something else fits.
    Span* const tight = FindRun(n, home, kind);
    if (tight->num_pages < kHugepagePages) return {FullestOfEqual(request, tight, kind)};
  }
  if (run != nullptr) return {run};
  // Where another one goes on, behind a run that it keeps.
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
  // One longer at a time: there are no more to step over than homes.
  while (run != nullptr && homes_.FirstWhere(goes_on_in) != nullptr) {
    run = free_[kind].FindBestFit(run->num_pages + Length(1));
  }
  return run;
}

}  // namespace tcmalloc
