// SPDX-License-Identifier: BSD-3-Clause
// PageHeap: what gets memory from the system, and which stretches of addresses came from it.
#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/tuning.h"
#include "page/page_heap.h"

namespace tcmalloc {
namespace {

// Some region's pages are the span's.
bool HasPages(const Span& span) {
  const SpanState state = span.state.load(std::memory_order_relaxed);
  return state != SpanState::kUnused && state != SpanState::kUnmapped;
}

}  // namespace

bool PageHeap::Grow(Length n, Length alignment) {
  // Room for an aligned run wherever the mapping lands.
  const Length needed = n + alignment - granule_;
  Length wanted = Length((system_bytes_.value() / kTuning.growth.part) >> kPageShift);
  if (wanted < kTuning.growth.min) wanted = kTuning.growth.min;
  if (wanted > kTuning.growth.max) wanted = kTuning.growth.max;
  wanted = RoundUp(wanted);
  const size_t room_bytes = vm_.Room();
  Length room = Length(room_bytes >> kPageShift);
  // What does not fit into the rest of one source comes from the next.
  if (room_bytes > 0 && room < needed) room = kMaxLength;
  bool hugepages;
  {
    const SpinLockHolder holder(lock_);
    if (later_hugepages_.has_value() && system_bytes_.value() > 0) {
      hugepages_ = *later_hugepages_;
      later_hugepages_.reset();
    }
    hugepages = GrowsInHugepagesLocked(n);
    // Some memory counts from the moment it comes: no more in advance than the limit allows.
    if (limits_.hard_bytes != kNoLimit) {
      const size_t left = limits_.hard_bytes - std::min(BackedBytesLocked(), limits_.hard_bytes);
      const Length whole_granules((left >> kPageShift) & ~(granule_.pages() - 1));
      room = std::min(room, std::max(needed, whole_granules));
    }
  }
  if (wanted > room) wanted = room;
  if (hugepages) {
    ResumeHugepages();
    const auto grow = [&](Length length) TC_NO_THREAD_SAFETY_ANALYSIS {
      return InWholeHugepages(length) <= room && GrowBy(InWholeHugepages(length), true);
    };
    if ((wanted > needed && grow(wanted)) || grow(needed)) return true;
  }
  if (wanted > needed && GrowBy(wanted, false)) return true;
  return GrowBy(needed, false);
}

bool PageHeap::MapNew(Length n, size_t alignment, NewMapping* made) {
  // Records first, so that nothing has to be undone after the system call.
  *made = {TakeRecord(), arena_.Allocate(sizeof(Region)), {}};
  if (made->span != nullptr && made->region_memory != nullptr) {
    made->mapping = vm_.Map(n.bytes(), alignment);
    if (made->mapping.start == nullptr && options_.unmap_when_short) {
      address_space_is_short_.store(true, std::memory_order_relaxed);
    }
  }
  void* const memory = made->mapping.start;
  // The neighbours' entries are read when the span is joined: they need leaves too.
  if (memory != nullptr &&
      page_map_.EnsureLeaves(PageId::Containing(memory) - Length(1),
                             made->length(granule_) + Length(2), arena_.vm())) {
    return true;
  }
  // Should the system refuse, address space is lost, nothing else.
  if (memory != nullptr) static_cast<void>(vm_.Unmap(memory, made->length(granule_).bytes()));
  Forget(*made);
  return false;
}

void PageHeap::Forget(const NewMapping& made) {
  if (made.region_memory != nullptr) arena_.Free(made.region_memory, sizeof(Region));
  if (made.span == nullptr) return;
  const SpinLockHolder holder(lock_);
  ReturnRecordLocked(made.span);
}

PageHeap::Region* PageHeap::AddMappingLocked(const NewMapping& made, bool hugepages) {
  Span* const span = made.span;
  const bool zero_filled = made.mapping.zero_filled;
  const Length n = made.length(granule_);
  // Not before: a stale entry of the page map may lead another thread to the record.
  span->first_page = PageId::Containing(made.mapping.start);
  span->num_pages = n;
  span->zero_filled = zero_filled;
  span->state.store(zero_filled ? SpanState::kFreeReleased : SpanState::kFreeMapped,
                    std::memory_order_relaxed);
  system_bytes_.Add(n.bytes());
  if (system_bytes_.value() > peak_system_bytes_.value()) {
    peak_system_bytes_.Set(system_bytes_.value());
  }
  growths_.Add(1);
  if (!zero_filled) commits_.Add(1);
  Region* const joined = AddRegionLocked(new (made.region_memory) Region{span->first_page, n});
  if (hugepages) MarkAdvisedLocked(span->first_page, n, true);
  if (zero_filled) CountReleasedLocked(span->first_page, n, true);
  InsertFreeLocked(span);
  return joined;
}

bool PageHeap::GrowBy(Length n, bool hugepages) {
  NewMapping made;
  if (n > kMaxLength || !MapNew(n, hugepages ? kHugepageSize : granule_.bytes(), &made)) {
    return false;
  }
  HugepageMode mode;
  {
    const SpinLockHolder holder(lock_);
    mode = hugepages_.mode;
  }
  // It may be more than was asked for.
  n = made.length(granule_);
  void* const memory = made.mapping.start;
  // Only what lies in whole ones.
  hugepages = hugepages && made.mapping.zero_filled &&
              reinterpret_cast<uintptr_t>(memory) % kHugepageSize == 0 &&
              n.bytes() % kHugepageSize == 0;
  if (hugepages || hugepage_policy::OptOut(mode, hugepages)) {
    vm_.AdviseHugepages(memory, n.bytes(), hugepages);
  }
  Region* joined;
  {
    const SpinLockHolder holder(lock_);
    joined = AddMappingLocked(made, hugepages);
  }
  FreeRegions(joined);
  TellOfGrowth(n);
  return true;
}

PageHeap::Region* PageHeap::AddRegionLocked(Region* region) {
  Region* joined = nullptr;
  for (Region** link = &regions_; *link != nullptr;) {
    Region* const other = *link;
    const bool before = other->first + other->length == region->first;
    const bool behind = region->first + region->length == other->first;
    if (!before && !behind) {
      link = &other->next;
      continue;
    }
    if (before) region->first = other->first;
    region->length += other->length;
    *link = other->next;
    other->next = joined;
    joined = other;
  }
  region->next = regions_;
  regions_ = region;
  return joined;
}

PageHeap::Region* PageHeap::RemoveRegionLocked(PageId first, Length n, Region* spare) {
  Region** link = &regions_;
  while (first < (*link)->first || first >= (*link)->first + (*link)->length) {
    link = &(*link)->next;
    TC_CHECK(*link != nullptr);
  }
  // The region becomes the part in front, the spare one the part behind.
  Region* const region = *link;
  const PageId end = region->first + region->length;
  Region* unused = nullptr;
  region->length = first - region->first;
  if (end > first + n) {
    *spare = Region{first + n, end - (first + n), region->next};
    region->next = spare;
  } else {
    spare->next = unused;
    unused = spare;
  }
  if (region->length == Length(0)) {
    *link = region->next;
    region->next = unused;
    unused = region;
  }
  return unused;
}

void PageHeap::FreeRegions(Region* regions) {
  while (regions != nullptr) {
    Region* const next = regions->next;
    arena_.Free(regions, sizeof(Region));
    regions = next;
  }
}

bool PageHeap::Owns(PageId page) {
  const SpinLockHolder holder(lock_);
  for (const Region* r = regions_; r != nullptr; r = r->next) {
    if (page >= r->first && page < r->first + r->length) return true;
  }
  return false;
}

const PageHeap::Region* PageHeap::NearestRegionLocked(PageId page) const {
  const Region* nearest = nullptr;
  for (const Region* r = regions_; r != nullptr; r = r->next) {
    if (r->first + r->length <= page) continue;
    if (nearest == nullptr || r->first < nearest->first) nearest = r;
  }
  return nearest;
}

bool PageHeap::FindRegion(PageId page, PageId* first, PageId* end) {
  const SpinLockHolder holder(lock_);
  const Region* const nearest = NearestRegionLocked(page);
  if (nearest == nullptr) return false;
  *first = nearest->first < page ? page : nearest->first;
  *end = nearest->first + nearest->length;
  return true;
}

size_t PageHeap::ListSpans(PageId from, SpanView* views, size_t n) {
  size_t found = 0;
  const SpinLockHolder holder(lock_);
  while (found < n) {
    const Region* const region = NearestRegionLocked(from);
    if (region == nullptr) return found;
    const PageId end = region->first + region->length;
    // Where an earlier call left off there is a boundary still, as a rule.
    const Span* const next = from > region->first ? page_map_.SpanOf(from) : nullptr;
    const bool resumes = next != nullptr && next->first_page == from && HasPages(*next);
    for (PageId page = resumes ? from : region->first; page < end && found < n;) {
      const Span* const span = page_map_.SpanOf(page);
      page = span->first_page + span->num_pages;
      if (page <= from) continue;
      views[found++] = {span, span->first_page, span->num_pages,
                        span->state.load(std::memory_order_relaxed),
                        page_map_.ClassOf(span->start_address())};
      from = page;
    }
  }
  return found;
}

}  // namespace tcmalloc
