// SPDX-License-Identifier: BSD-3-Clause
#include "page/page_heap.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/tuning.h"

namespace tcmalloc {
namespace {

constexpr size_t kRecordsPerBlock = kTuning.metadata.span_records_bytes / sizeof(Span);

Length GranuleFor(size_t hardware_page_size) {
  return hardware_page_size <= kPageSize ? Length(1) : Length(hardware_page_size >> kPageShift);
}

bool IsFree(SpanState state) {
  return state == SpanState::kFreeMapped || state == SpanState::kFreeReleased;
}

bool IsReleased(const Span* span) {
  return span->state.load(std::memory_order_relaxed) == SpanState::kFreeReleased;
}

}  // namespace

PageHeap::PageHeap(VirtualMemory& vm, PageMap& page_map, MetadataArena& arena,
                   const Options& options)
    : vm_(vm),
      page_map_(page_map),
      arena_(arena),
      options_(options),
      granule_(GranuleFor(vm.hardware_page_size())),
      free_runs_(page_map) {}

Span* PageHeap::Allocate(Request request) {
  Length& n = request.length;
  Length& alignment = request.alignment;
  TC_ASSERT(n > Length(0));
  if (n > kMaxLength || alignment > kMaxLength) return nullptr;
  n = RoundUp(n);
  if (alignment < granule_) alignment = granule_;
  // Not under the lock: without a vDSO it is a system call.
  request.now_ms = now_ms();
  // What is left to try when the system refuses.
  enum { kAnywhere, kDrain, kUnmapAndMap, kNothing } resort = kAnywhere;
  // What is kept in span caches comes before memory that is not there yet. What others keep while
  // this call empties the caches is not waited for.
  const size_t kept_bytes = SpanCacheBytes();
  size_t drained_bytes = 0;
  bool mapped_only = kept_bytes > 0;
  LimitPass limit_pass;
  for (;;) {
    bool records_needed = false;
    Span* span = nullptr;
    PageRange populate{};
    {
      const SpinLockHolder holder(lock_);
      records_needed = num_records_ < kRecordsPerOperation + kSpareRecords;
      if (!records_needed) {
        span = limits_.any()
                   ? AllocateWithinLimitsLocked(request, mapped_only, limit_pass, &populate)
                   : AllocateLocked(request, FindBestPlaceLocked(request, mapped_only), &populate);
      }
    }
    if (span != nullptr) {
      if (populate.end > populate.first) Populate(populate);
      return span;
    }
    if (limit_pass.needs_room()) {
      if (!MakeRoom(limit_pass)) return nullptr;
      continue;
    }
    if (mapped_only && !records_needed) {
      const size_t drained = DrainFor(request);
      drained_bytes += drained;
      mapped_only = drained > 0 && drained_bytes <= kept_bytes;
      continue;
    }
    if (records_needed) {
      if (!AddRecords()) return nullptr;
      continue;
    }
    if (Grow(n, alignment)) continue;
    if (resort == kAnywhere) {
      resort = kDrain;
      if (request.home != nullptr) {
        request.home = nullptr;
        continue;
      }
    }
    if (resort == kDrain) {
      resort = options_.unmap_when_short ? kUnmapAndMap : kNothing;
      if (SpanCacheBytes() > 0) {
        DrainSpanCaches();
        continue;
      }
    }
    // A request for more than could ever be freed would fail all the same.
    if (resort == kNothing || n > MostThatMayFit()) return nullptr;
    // There is enough, but nowhere in one piece, and a limit on address space (RLIMIT_AS) counts
    // all of it.
    UnmapAtLeast(n + alignment + Length::ForBytes(PageMap::leaf_bytes()),
                 kTuning.release.max_refusals);
    resort = kNothing;
  }
}

bool PageHeap::OtherHomeGoesOnIn(const Span* span, const SpanHome& home) const {
  const SpanHome* other = homes_.load(std::memory_order_acquire);
  for (; other != nullptr; other = other->next) {
    if (other != &home && other->run_end == span->first_page) return true;
  }
  return false;
}

Span* PageHeap::FindRunLocked(Length n, const SpanHome& home, FreeKind kind) const {
  Span* run = free_[kind].FindBestFit(n);
  // One longer at a time: there are no more to step over than homes.
  while (run != nullptr && OtherHomeGoesOnIn(run, home)) {
    run = free_[kind].FindBestFit(run->num_pages + Length(1));
  }
  return run;
}

PageHeap::Place PageHeap::FindNearLocked(Length n, const SpanHome& home, FreeKind kind) {
  const PageId end = home.run_end;
  Span* const next = FreeNeighbourLocked(end);
  if (next != nullptr && IsReleased(next) == (kind == kReleased) && next->first_page == end &&
      next->num_pages >= n) {
    return {next};
  }
  const Length near_run = NearRun(InUseLocked(), homes_in_use_);
  const Length run_length = n > near_run ? n : near_run;
  Span* const run = FindRunLocked(run_length, home, kind);
  if (run != nullptr && hugepages_.mode != HugepageMode::kNever &&
      run->num_pages >= kHugepagePages) {
    // Whole hugepages are left alone as long as something else fits.
    Span* const tight = FindRunLocked(n, home, kind);
    if (tight->num_pages < kHugepagePages) return {FullestOfEqualLocked(tight, kind)};
  }
  if (run != nullptr) return {run};
  // Where another one goes on, behind a run that it keeps.
  return {free_[kind].FindBestFit(near_run + run_length), near_run};
}

PageHeap::Place PageHeap::FindPlaceLocked(const Request& request, FreeKind kind) {
  if (request.home != nullptr) {
    const Place near = FindNearLocked(request.length, *request.home, kind);
    if (near.span != nullptr) return near;
    Span* const run = FindRunLocked(request.length, *request.home, kind);
    return {FullestOfEqualLocked(run, kind)};
  }
  // A span this long holds an aligned run wherever it starts.
  Span* const span = free_[kind].FindBestFit(request.length + request.alignment - granule_);
  if (span == nullptr) return {};
  if (request.alignment <= granule_) return {FullestOfEqualLocked(span, kind)};
  const size_t misalignment = span->first_page.index() & (request.alignment.pages() - 1);
  return {span, misalignment == 0 ? Length(0) : request.alignment - Length(misalignment)};
}

Length PageHeap::FreshPagesAtLocked(const Place& place, Length n) {
  const Span* span = place.span;
  PageId page = span->first_page + place.offset;
  const PageId end = page + n;
  for (Length fresh;; span = FreeNeighbourLocked(page)) {
    const PageId behind = span->first_page + span->num_pages;
    const PageId next = behind < end ? behind : end;
    if (IsReleased(span)) {
      fresh += BackedWithLocked(*span, next - Length(1), Length(0)).end -
               BackedWithLocked(*span, page, Length(0)).first;
    }
    if (next == end) return fresh;
    page = next;
  }
}

TC_SLOW_PATH PageHeap::Place PageHeap::FindInRunLocked(const Request& request) {
  const Length n = request.length;
  const FreeRuns::Run run = free_runs_.FindBestFit(n + request.alignment - granule_);
  if (run.first == nullptr) return {};
  const uintptr_t mask = request.alignment.pages() - 1;
  const PageId lowest((run.first->first_page.index() + mask) & ~mask);
  const PageId highest((run.end() - n).index() & ~mask);
  Span* span = run.first;
  while (lowest >= span->first_page + span->num_pages) {
    span = FreeNeighbourLocked(span->first_page + span->num_pages);
  }
  const Place at_front = {span, lowest - span->first_page};
  span = run.last;
  while (highest < span->first_page) span = FreeNeighbourLocked(span->first_page - Length(1));
  const Place at_end = {span, highest - span->first_page};
  return FreshPagesAtLocked(at_front, n) <= FreshPagesAtLocked(at_end, n) ? at_front : at_end;
}

// Goals, in this order: little address space, which best fit among all free memory is good for,
// however much of it is backed; then little fresh memory, which the runs are good for, since each
// has some that is backed. For small objects the rule where in a shard's memory they are comes
// first, and a run is what is left before the heap grows.
PageHeap::Place PageHeap::FindFreshPlaceLocked(const Request& request) {
  const Place released = FindPlaceLocked(request, kReleased);
  if (free_runs_.count() == 0 || (released.span != nullptr && request.home != nullptr)) {
    return released;
  }
  const Place in_run = FindInRunLocked(request);
  if (in_run.span == nullptr) return released;
  if (released.span == nullptr) return in_run;
  return FreeAroundLocked(in_run.span) <= FreeAroundLocked(released.span) ? in_run : released;
}

// Memory that is backed comes first. Where there is much more address space than was ever needed,
// large objects take it only where nothing tighter is free: see SavesSpace.
PageHeap::Place PageHeap::FindBestPlaceLocked(const Request& request, bool mapped_only) {
  const Place mapped = FindPlaceLocked(request, kMapped);
  if (mapped.span == nullptr) return mapped_only ? Place() : FindFreshPlaceLocked(request);
  if (request.use != SpanState::kLarge || mapped.span->num_pages == request.length) return mapped;
  const Length system(system_bytes_.value() >> kPageShift);
  if (!SavesSpace(system, most_in_use_, options_.spare_space)) return mapped;
  Place fresh = FindFreshPlaceLocked(request);
  if (fresh.span == nullptr || FreeAroundLocked(mapped.span) <= FreeAroundLocked(fresh.span)) {
    return mapped;
  }
  fresh.by_choice = true;
  return fresh;
}

Span* PageHeap::AllocateLocked(const Request& request, const Place& place, PageRange* populate) {
  const Length n = request.length;
  const SpanState use = request.use;
  if (place.span == nullptr) return nullptr;
  bool fresh = IsReleased(place.span);
  Span* span;
  if (place.span->num_pages < place.offset + n) {
    span = TakePlaceLocked(place, n, &fresh);
  } else {
    // Memory that may not be needed is not taken where it is limited.
    const bool steps = fresh && request.need == Need::kWhole && !limits_.any() &&
                       hugepages_.mode != HugepageMode::kNever;
    Length step = steps ? hugepage_policy::PopulateStep(InUseLocked()) : Length(0);
    if (step < granule_) step = Length(0);
    PageRange backed;
    span = CarveLocked(place.span, place.span->first_page + place.offset, n, step, &backed);
    const bool worth_a_call = step > Length(0) && backed.end - backed.first >= step;
    if (worth_a_call && !IsAdvisedLocked(*span)) *populate = backed;
    CountUsedLocked(span->first_page, n, true);
    span->in_use.written = fresh && span->zero_filled ? Length(0) : n;
  }
  if (request.home != nullptr) {
    PageId& end = request.home->run_end;
    if (end == PageId()) ++homes_in_use_;
    end = span->first_page + n;
  }
  span->state.store(use, std::memory_order_relaxed);
  BytesInUse(use).Add(span->bytes());
  span->in_use.handed_out_ms = request.now_ms;
  if (use == SpanState::kLarge) {
    span->sample = nullptr;
    large_spans_.Add(1);
  }
  RecordDemandLocked(fresh && !place.by_choice, request.now_ms);
  return span;
}

Span* PageHeap::SplitLocked(Span* span, Length n) {
  TC_ASSERT(n < span->num_pages);
  Span* const rest = TakeRecordLocked();
  rest->first_page = span->first_page + n;
  rest->num_pages = span->num_pages - n;
  rest->zero_filled = span->zero_filled;
  rest->state.store(span->state.load(std::memory_order_relaxed), std::memory_order_relaxed);
  span->num_pages = n;
  MarkEnds(span);
  MarkEnds(rest);
  return rest;
}

Length PageHeap::MostThatMayFit() {
  // What was unmapped may be mapped again.
  return options_.unmap_when_short ? Length(peak_system_bytes_.value() >> kPageShift) : FreePages();
}

Length PageHeap::FreePages() {
  const SpinLockHolder holder(lock_);
  return free_[kMapped].total() + free_[kReleased].total() +
         Length(SpanCacheBytes() >> kPageShift) + Length(releasing_bytes_.value() >> kPageShift);
}

void* PageHeap::TakeForMetadata(size_t* bytes) {
  for (;;) {
    if (void* const memory = TryTakeForMetadata(bytes)) return memory;
    if (DrainOneSpan() == 0) return nullptr;
  }
}

void* PageHeap::TryTakeForMetadata(size_t* bytes) {
  const Length n = RoundUp(Length::ForBytes(*bytes));
  const SpinLockHolder holder(lock_);
  Span* span = free_[kMapped].FindBestFit(n);
  if (span == nullptr) span = free_[kReleased].FindBestFit(n);
  // What is not zero-filled may be shared with forked children.
  if (span == nullptr || !span->zero_filled) return nullptr;
  PageRange backed;
  // What is asked for may be new records: without some to spare, the whole span goes.
  const Length taken = num_records_ >= kSpareRecords ? n : span->num_pages;
  span = CarveLocked(span, span->first_page, taken, Length(0), &backed);
  CountUsedLocked(span->first_page, span->num_pages, true);
  span->state.store(SpanState::kMetadata, std::memory_order_relaxed);
  metadata_span_bytes_.Add(span->bytes());
  *bytes = span->bytes();
  return span->start_address();
}

void PageHeap::MarkEnds(Span* span) {
  page_map_.SetSpan(span->first_page, span);
  page_map_.SetSpan(span->last_page(), span);
}

void PageHeap::Delete(Span* span) {
  if (span->free_bits != nullptr) {
    if (span->free_bits != &span->inline_bits) {
      arena_.Free(span->free_bits, span->bits_words * sizeof(uint64_t));
    }
    span->free_bits = nullptr;
  }
  bool time_to_decide;
  {
    const SpinLockHolder holder(lock_);
    time_to_decide = DeleteLocked(span);
  }
  ReleaseAfterFreeing(time_to_decide);
}

Span* PageHeap::NewFromCache(Length n, SpanHome& home) {
  Span* const span = home.kept.TryTake(RoundUp(n));
  if (span == nullptr) return nullptr;
  span->in_use.written = span->num_pages;
  span->in_use.handed_out_ms = now_ms();
  return span;
}

void PageHeap::DeleteToCache(Span* span, SpanHome& home, bool near) {
  // What is kept can neither be unmapped for others nor given back.
  const bool wanted_back = address_space_is_short_.load(std::memory_order_relaxed) ||
                           above_soft_limit_.load(std::memory_order_relaxed) ||
                           releasing_.load(std::memory_order_relaxed) == Releasing::kEager;
  if (wanted_back || !home.kept.TryPut(span, near)) Delete(span);
}

size_t PageHeap::DrainOneSpanOf(SpanCache& cache) {
  Span* const span = cache.TakeAny();
  if (span == nullptr) return 0;
  const size_t bytes = span->bytes();
  Delete(span);
  return bytes;
}

size_t PageHeap::DrainOneSpan() {
  SpanHome* home = homes_.load(std::memory_order_acquire);
  for (; home != nullptr; home = home->next) {
    if (const size_t bytes = DrainOneSpanOf(home->kept)) return bytes;
  }
  return 0;
}

size_t PageHeap::DrainFor(const Request& request) {
  // One that is cut, or joined with its neighbours, may be enough.
  if (request.home != nullptr) {
    size_t bytes = DrainOneSpanOf(request.home->kept);
    if (bytes > 0) return bytes;
    for (size_t i = 0; i < kTuning.span_cache.drained_at_once; ++i) {
      const size_t more = DrainOneSpan();
      if (more == 0) break;
      bytes += more;
    }
    return bytes;
  }
  if (request.length.pages() <= kTuning.span_cache.max_pages) return DrainOneSpan();
  DrainSpanCaches();
  return 0;
}

size_t PageHeap::DrainSpanCaches() {
  // One at a time: no lock is held for long, and a forked child misses one span at most.
  size_t drained = 0;
  while (const size_t bytes = DrainOneSpan()) drained += bytes;
  return drained;
}

size_t PageHeap::SpanCacheBytes() const {
  size_t sum = 0;
  ForEachHome([&sum](const SpanHome& home) { sum += home.kept.bytes(); });
  return sum;
}

bool PageHeap::DeleteLargeAt(Span* span, const void* p, void** sample) {
  bool time_to_decide;
  {
    const SpinLockHolder holder(lock_);
    if (!IsLargeAt(span, p)) return false;
    span->TakeSample(sample);
    time_to_decide = DeleteLocked(span);
  }
  ReleaseAfterFreeing(time_to_decide);
  return true;
}

bool PageHeap::ResizeLargeAt(Span* span, const void* p, Length n, void** sample) {
  if (n == Length(0) || n > kMaxLength) return false;
  n = RoundUp(n);
  bool time_to_decide = false;
  LimitPass limit_pass;
  for (;;) {
    bool records_needed;
    {
      const SpinLockHolder holder(lock_);
      if (!IsLargeAt(span, p)) return false;
      records_needed = num_records_ < kRecordsPerOperation + kSpareRecords;
      if (!records_needed && n >= span->num_pages) {
        if (ExtendWithinLimitsLocked(span, n - span->num_pages, limit_pass)) {
          span->TakeSample(sample);
          return true;
        }
        if (!limit_pass.needs_room()) return false;
      } else if (!records_needed) {
        Span* const end = SplitLocked(span, n);
        large_span_bytes_.Subtract(end->bytes());
        CountUsedLocked(end->first_page, end->num_pages, false);
        time_to_decide = PagesFreedLocked(end->num_pages);
        end->state.store(SpanState::kFreeMapped, std::memory_order_relaxed);
        InsertFreeLocked(end);
        span->TakeSample(sample);
        break;
      }
    }
    if (records_needed ? !AddRecords() : !MakeRoom(limit_pass)) return false;
  }
  ReleaseAfterFreeing(time_to_decide);
  return true;
}

Span* PageHeap::FreeSpanAtLocked(PageId page) {
  Span* const span = FreeNeighbourLocked(page);
  return span != nullptr && span->first_page == page ? span : nullptr;
}

bool PageHeap::MayExtendLocked(const Span* span, Length more, Length* released) {
  // Mapped and released ones may take turns.
  Length found;
  *released = Length(0);
  for (PageId page = span->first_page + span->num_pages; found < more;) {
    const Span* const next = FreeSpanAtLocked(page);
    if (next == nullptr) return false;
    const Length taken = next->num_pages < more - found ? next->num_pages : more - found;
    if (IsReleased(next)) *released += taken;
    found += taken;
    page += next->num_pages;
  }
  return true;
}

void PageHeap::ExtendLocked(Span* span, Length more) {
  large_span_bytes_.Add(more.bytes());
  bool fresh = false;
  while (more > Length(0)) {
    Span* const next = FreeSpanAtLocked(span->first_page + span->num_pages);
    TC_CHECK(next != nullptr);
    fresh |= IsReleased(next);
    const Length taken = next->num_pages < more ? next->num_pages : more;
    span->zero_filled &= next->zero_filled;
    PageRange backed;
    CarveLocked(next, next->first_page, taken, Length(0), &backed);
    CountUsedLocked(next->first_page, taken, true);
    ReturnRecordLocked(next);
    span->num_pages += taken;
    more -= taken;
  }
  MarkEnds(span);
  RecordDemandLocked(fresh);
}

bool PageHeap::PagesFreedLocked(Length n) { return release_policy_.PagesFreed(n); }

bool PageHeap::DeleteLocked(Span* span) {
  const SpanState use = span->state.load(std::memory_order_relaxed);
  TC_CHECK(use == SpanState::kSmall || use == SpanState::kLarge);
  BytesInUse(use).Subtract(span->bytes());
  if (use == SpanState::kLarge) large_spans_.Subtract(1);
  CountUsedLocked(span->first_page, span->num_pages, false);
  const bool time_to_decide = PagesFreedLocked(span->num_pages);
  span->owner.store(0, std::memory_order_relaxed);
  span->state.store(SpanState::kFreeMapped, std::memory_order_relaxed);
  InsertFreeLocked(span);
  return time_to_decide;
}

Span* PageHeap::FreeNeighbourLocked(PageId page) {
  Span* const span = page_map_.SpanOf(page);
  // P1 and S1: the entry of a page at the end of a neighbouring span is that span.
  if (span == nullptr || !IsFree(span->state.load(std::memory_order_relaxed))) return nullptr;
  // Outside the heap there may be an entry of what was unmapped since; its record may be in use
  // elsewhere.
  return page >= span->first_page && page <= span->last_page() ? span : nullptr;
}

void PageHeap::InsertFreeLocked(Span* span) {
  const SpanState state = span->state.load(std::memory_order_relaxed);
  TC_ASSERT(IsFree(state));
  Span* before = FreeNeighbourLocked(span->first_page - Length(1));
  if (before != nullptr && before->state.load(std::memory_order_relaxed) == state) {
    TC_ASSERT(before->first_page + before->num_pages == span->first_page);
    RemoveFreeLocked(before);
    span->first_page = before->first_page;
    span->num_pages += before->num_pages;
    span->zero_filled &= before->zero_filled;
    ReturnRecordLocked(before);
    before = FreeNeighbourLocked(span->first_page - Length(1));
  }
  Span* behind = FreeNeighbourLocked(span->first_page + span->num_pages);
  if (behind != nullptr && behind->state.load(std::memory_order_relaxed) == state) {
    TC_ASSERT(behind->first_page == span->first_page + span->num_pages);
    RemoveFreeLocked(behind);
    span->num_pages += behind->num_pages;
    span->zero_filled &= behind->zero_filled;
    ReturnRecordLocked(behind);
    behind = FreeNeighbourLocked(span->first_page + span->num_pages);
  }
  MarkEnds(span);
  FreeSpansFor(state).Insert(span);
  free_runs_.Join(span, before, behind);
}

void PageHeap::RemoveFreeLocked(Span* span) {
  FreeSpansFor(span->state.load(std::memory_order_relaxed)).Remove(span);
  free_runs_.Leave(span);
}

TC_SLOW_PATH Span* PageHeap::TakePlaceLocked(const Place& place, Length n, bool* fresh) {
  const PageId first = place.span->first_page + place.offset;
  const PageId end = first + n;
  Span* span = nullptr;
  Length written;
  *fresh = false;
  for (PageId page = first; page < end;) {
    Span* const next = span == nullptr ? place.span : FreeSpanAtLocked(page);
    TC_CHECK(next != nullptr);
    const Length rest = next->first_page + next->num_pages - page;
    const Length taken = rest < end - page ? rest : end - page;
    const bool released = IsReleased(next);
    *fresh |= released;
    if (!released || !next->zero_filled) written = page + taken - first;
    PageRange backed;
    Span* const part = CarveLocked(next, page, taken, Length(0), &backed);
    page += taken;
    if (span == nullptr) {
      span = part;
    } else {
      span->zero_filled &= part->zero_filled;
      span->num_pages += taken;
      ReturnRecordLocked(part);
    }
  }
  MarkEnds(span);
  CountUsedLocked(first, n, true);
  span->in_use.written = written;
  return span;
}

Span* PageHeap::TakeRecordLocked() {
  Span* const span = records_.PopFirst();
  TC_CHECK(span != nullptr);
  --num_records_;
  return span;
}

Span* PageHeap::TakeRecord() {
  do {
    const SpinLockHolder holder(lock_);
    if (num_records_ > kSpareRecords) return TakeRecordLocked();
  } while (AddRecords());
  return nullptr;
}

void PageHeap::ReturnRecordLocked(Span* span) {
  span->state.store(SpanState::kUnused, std::memory_order_relaxed);
  records_.Prepend(span);
  ++num_records_;
}

bool PageHeap::AddRecords() {
  char* const memory = static_cast<char*>(arena_.Allocate(kRecordsPerBlock * sizeof(Span)));
  if (memory == nullptr) return false;
  const SpinLockHolder holder(lock_);
  for (size_t i = 0; i < kRecordsPerBlock; ++i) {
    ReturnRecordLocked(new (memory + i * sizeof(Span)) Span);
  }
  return true;
}

void PageHeap::CountFreeSpansLocked(FreeSpanCounts* counts) {
  *counts = {};
  Length mapped;
  Length released;
  for (size_t i = 0; i < FreeSpans::kMaxExactPages; ++i) {
    const Length n(i + 1);
    FreeSpanCounts::Count& count = counts->exact[i];
    count.mapped = static_cast<uint32_t>(free_[kMapped].CountExact(n));
    count.released = static_cast<uint32_t>(free_[kReleased].CountExact(n));
    counts->longer.mapped -= count.mapped;
    counts->longer.released -= count.released;
    mapped += Length(n.pages() * count.mapped);
    released += Length(n.pages() * count.released);
  }
  counts->longer.mapped += static_cast<uint32_t>(free_[kMapped].count());
  counts->longer.released += static_cast<uint32_t>(free_[kReleased].count());
  counts->longer_mapped_bytes = (free_[kMapped].total() - mapped).bytes();
  counts->longer_released_bytes = (free_[kReleased].total() - released).bytes();
  ForEachHome([counts](const SpanHome& home) {
    if (home.kept.bytes() == 0) return;
    for (size_t i = 0; i < kTuning.span_cache.max_pages; ++i) {
      counts->exact[i].mapped += static_cast<uint32_t>(home.kept.count(Length(i + 1)));
    }
  });
}

PageHeap::Stats PageHeap::GetStats(FreeSpanCounts* counts) {
  const SpinLockHolder holder(lock_);
  if (counts != nullptr) CountFreeSpansLocked(counts);
  Stats stats;
  stats.system_bytes = system_bytes_.value();
  const size_t cached_bytes = SpanCacheBytes();
  stats.free_mapped_bytes = free_[kMapped].total().bytes() + cached_bytes;
  stats.free_released_bytes = free_[kReleased].total().bytes();
  stats.releasing_bytes = releasing_bytes_.value();
  stats.small_span_bytes = small_span_bytes_.value() - cached_bytes;
  stats.large_span_bytes = large_span_bytes_.value();
  stats.metadata_span_bytes = metadata_span_bytes_.value();
  stats.free_mapped_spans = free_[kMapped].count();
  stats.free_released_spans = free_[kReleased].count();
  stats.large_spans = large_spans_.value();
  stats.growths = growths_.value();
  stats.releases = releases_.value();
  stats.released_total_bytes = released_total_bytes_.value();
  stats.commits = commits_.value();
  stats.unmapped_total_bytes = unmapped_total_bytes_.value();
  stats.unmapped_backed_bytes = unmapped_backed_bytes_.value();
  stats.hugepages = hugepages_;
  stats.hugepage_bytes = hugepages_advised_.value() * kHugepageSize;
  stats.hugepages_broken = hugepages_broken_.value();
  stats.populations = populations_.value();
  stats.moves = moves_.value();
  stats.limits = limits_;
  stats.hard_limit = limit_watch_.counts(LimitKind::kHard);
  stats.soft_limit = limit_watch_.counts(LimitKind::kSoft);
  return stats;
}

void PageHeap::CheckInvariants() {
  const SpinLockHolder holder(lock_);
  Length listed[kNumFreeKinds];
  Length in_use;
  size_t runs = 0;
  FreeRuns::Run run;
  const auto end_run = [&]() TC_NO_THREAD_SAFETY_ANALYSIS {
    if (run.first != run.last) {
      ++runs;
      TC_CHECK(free_runs_.Contains(run));                                 // P6
      TC_CHECK(run.last->first_page + run.last->num_pages == run.end());  // P6
    }
    run = {};
  };
  for (const Region* r = regions_; r != nullptr; r = r->next) {
    SpanState previous = SpanState::kUnused;
    // Of the hugepage that the walk is in; one that is not all of the region is not compared.
    Hugepage counted;
    PageId counted_from = r->first;
    for (PageId page = r->first; page < r->first + r->length;) {
      Span* const span = page_map_.SpanOf(page);
      TC_CHECK(span != nullptr && span->first_page == page);              // P1
      TC_CHECK(span->num_pages > Length(0));                              // S1
      TC_CHECK(page_map_.SpanOf(span->last_page()) == span);              // S1
      TC_CHECK((page.index() & (granule_.pages() - 1)) == 0);             // P4
      TC_CHECK((span->num_pages.pages() & (granule_.pages() - 1)) == 0);  // P4
      const SpanState state = span->state.load(std::memory_order_relaxed);
      TC_CHECK(state != SpanState::kUnused);
      if (IsFree(state)) {
        TC_CHECK(state != previous);  // P2
        run = {run.first == nullptr ? span : run.first, span};
        TC_CHECK(span->in_run == (run.first != span ||
                                  FreeNeighbourLocked(page + span->num_pages) != nullptr));  // P6
        listed[state == SpanState::kFreeReleased ? kReleased : kMapped] += span->num_pages;
      } else {
        in_use += span->num_pages;
        end_run();
      }
      previous = state;
      const PageId end = page + span->num_pages;
      while (page < end) {
        const PageId next = HugepageEnd(page) < end ? HugepageEnd(page) : end;
        const auto pages = static_cast<uint16_t>((next - page).pages());
        if (state == SpanState::kFreeReleased) counted.released += pages;
        if (!IsFree(state) && state != SpanState::kReleasing) counted.used += pages;
        if (next == HugepageEnd(page)) {
          const Hugepage& hugepage = page_map_.HugepageOf(page);
          if (counted_from == HugepageStart(page)) {
            TC_CHECK(counted.used == hugepage.used);          // P5
            TC_CHECK(counted.released == hugepage.released);  // P5
          }
          counted = Hugepage();
          counted_from = next;
        }
        page = next;
      }
    }
    end_run();
  }
  TC_CHECK(runs == free_runs_.count());                     // P6
  TC_CHECK(listed[kMapped] == free_[kMapped].total());      // P3
  TC_CHECK(listed[kReleased] == free_[kReleased].total());  // P3
  TC_CHECK(in_use.bytes() == small_span_bytes_.value() + large_span_bytes_.value() +
                                 metadata_span_bytes_.value() + releasing_bytes_.value());
}

}  // namespace tcmalloc
