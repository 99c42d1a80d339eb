// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/address_space.h"

#include <algorithm>
#include <cstring>

#include "base/config.h"
#include "base/units.h"

namespace tcmalloc {

// Span records come from the arena in blocks of this size, so that rounding wastes little.
constexpr size_t kSpanRecordsBytes = 4_KiB;

bool AddressSpace::Grow(Length n, Length alignment) {
  // Room for an aligned run wherever the mapping lands.
  const Length needed = n + alignment - granule_;
  const size_t room_bytes = vm_.Room();
  Length room = Length(room_bytes >> kPageShift);
  // A request that does not fit into the rest of one source of memory is served from the next.
  if (room_bytes > 0 && room < needed) room = SpanStore::kMaxLength;
  GrowthPlan plan;
  {
    const SpinLockHolder holder(state_.lock);
    plan = state_.governor.PlanGrowth(state_.Held(), n, needed, room);
  }
  if (plan.hugepages) {
    ResumeHugepages();
    const auto grow = [&](Length length) {
      length = InWholeHugepages(length);
      return length <= plan.room && GrowBy(length, true, plan.mode);
    };
    if ((plan.wanted > needed && grow(plan.wanted)) || grow(needed)) return true;
  }
  return (plan.wanted > needed && GrowBy(plan.wanted, false, plan.mode)) ||
         GrowBy(needed, false, plan.mode);
}

bool AddressSpace::GrowBy(Length n, bool hugepages, HugepageMode mode) {
  if (n > SpanStore::kMaxLength) return false;
  const Mapping mapping = MapNew(n, hugepages ? kHugepageSize : granule_.bytes());
  if (mapping.start == nullptr) return false;
  // Only a mapping of whole hugepages; it may be longer than requested.
  hugepages = hugepages && mapping.zero_filled &&
              reinterpret_cast<uintptr_t>(mapping.start) % kHugepageSize == 0 &&
              mapping.bytes % kHugepageSize == 0;
  if (hugepages || hugepage_policy::OptOut(mode, hugepages)) {
    vm_.AdviseHugepages(mapping.start, mapping.bytes, hugepages);
  }
  if (!state_.WithRecords([&]() TC_REQUIRES(state_.lock) { AddMapping(mapping, hugepages); })) {
    static_cast<void>(vm_.Unmap(mapping.start, mapping.bytes));
    return false;
  }
  NotifyGrowth(Length(mapping.bytes >> kPageShift));
  return true;
}

Mapping AddressSpace::MapNew(Length n, size_t alignment) {
  Mapping mapping = vm_.Map(n.bytes(), alignment);
  if (mapping.start == nullptr) {
    const int64_t now_ms = now_ms_();
    // The refusal of more than the heap ever had shows no shortage: unmapping could not serve it.
    const SpinLockHolder holder(state_.lock);
    if (unmap_when_short_ && n.bytes() <= state_.store.counts.peak_system_bytes) {
      state_.hints.shortage.Set(AddressSpaceShortage::kNow);
      shortage_ms_ = now_ms;
      unmapped_since_ = false;
    }
    return mapping;
  }
  TC_ASSERT(reinterpret_cast<uintptr_t>(mapping.start) % alignment == 0);
  mapping.bytes &= ~(granule_.bytes() - 1);
  // The neighbours' entries are read when the span is joined: they need leaves too.
  if (page_map_.EnsureLeaves(PageId::Containing(mapping.start) - Length(1),
                             Length::ForBytes(mapping.bytes) + Length(2), state_.arena.vm())) {
    return mapping;
  }
  // If the OS refuses, only address space is lost.
  static_cast<void>(vm_.Unmap(mapping.start, mapping.bytes));
  return {};
}

Span* AddressSpace::AddMapping(const Mapping& mapping, bool hugepages) {
  const PageRange range = PagesOf(mapping);
  ++state_.store.counts.growths;
  if (!mapping.zero_filled) ++state_.store.counts.commits;
  if (hugepages) state_.store.hugepages().MarkAdvised(range, true);
  return state_.store.AddPages(
      range, mapping.zero_filled ? SpanState::kFreeReleased : SpanState::kFreeBacked,
      mapping.zero_filled);
}

void AddressSpace::NotifyGrowth(Length n) {
  const auto observer = growth_observer_.load(std::memory_order_acquire);
  if (observer != nullptr) observer(n.bytes());
}

void AddressSpace::Prefault(PageRange range) {
  if (!can_prefault_.value()) return;
  // Another thread may take some of these pages meanwhile, and touch them before or after they are
  // backed. Pages that it releases meanwhile may become backed again, which costs only memory.
  if (!vm_.Populate(range.start_address(), range.bytes())) {
    // The kernel is older than Linux 5.14, or the memory is of another kind.
    can_prefault_.Set(false);
    return;
  }
  const SpinLockHolder holder(state_.lock);
  ++state_.store.counts.prefaults;
}

void AddressSpace::StopHugepagesAt(PageId page, bool in_used_span) {
  PageRange range = {HugepageStart(page), HugepageEnd(page)};
  {
    const SpinLockHolder holder(state_.lock);
    Hugepage& hugepage = state_.store.hugepages().Of(page);
    hugepage.holes |= in_used_span;
    if (!hugepage.advised) return;
  }
  // Makes room to remember this one.
  ResumeHugepages();
  {
    const SpinLockHolder holder(state_.lock);
    HugepageCounts& hugepages = state_.store.hugepages();
    if (!hugepages.Of(page).advised) return;
    if (num_stopped_ == kStoppedRemembered) {
      // The hugepages around it in its block that were asked for. A block lies in one leaf of the
      // page map.
      const PageId begin(page.index() & ~(kStoppedAtOnce.pages() - 1));
      const PageId end = begin + kStoppedAtOnce;
      while (range.first > begin && hugepages.Of(range.first - Length(1)).advised) {
        range.first = range.first - kHugepagePages;
      }
      while (range.end < end && hugepages.Of(range.end).advised) range.end += kHugepagePages;
    } else {
      stopped_[num_stopped_++] = range;
    }
    hugepages.MarkAdvised(range, false);
  }
  vm_.AdviseHugepages(range.start_address(), range.bytes(), false);
}

void AddressSpace::ResumeHugepages() {
  for (size_t i = 0;; ++i) {
    PageRange range{};
    {
      const SpinLockHolder holder(state_.lock);
      if (i >= num_stopped_) return;
      range = stopped_[i];
      HugepageCounts& hugepages = state_.store.hugepages();
      const bool is_owned = state_.store.Owns(range.first, range.length());
      // A slice that is being released is not counted yet.
      if (is_owned && (hugepages.AreSplit(range) || IsUnderWay(range))) continue;
      stopped_[i--] = stopped_[--num_stopped_];
      if (!is_owned) continue;
      hugepages.MarkAdvised(range, true);
    }
    // Other threads may stop or resume them meanwhile, and their advice may reach the OS first. So
    // the last advice must be the one that is marked.
    for (bool advice = true;;) {
      vm_.AdviseHugepages(range.start_address(), range.bytes(), advice);
      const SpinLockHolder holder(state_.lock);
      HugepageCounts& hugepages = state_.store.hugepages();
      const bool marked = hugepages.AreAdvised(range, true);
      if (!marked) hugepages.MarkAdvised(range, false);
      if (marked == advice) break;
      advice = marked;
    }
  }
}

// Clears memory that may have been written to, for calloc.
//
// The heap does not know which pages of a free span are backed: the program may have written to few
// of the pages of a large object. Clearing would back all of them. So the OS is asked, and memory
// that is hardly backed is released: it reads as zeroes then. The answers of the OS decide only
// about the cost. Whatever they are, each page is either cleared or released: a page that is
// swapped out counts as unbacked, and is not zero.
void AddressSpace::Clear(const Span& span, size_t bytes) {
  // Whole hardware pages.
  const Length used((Length::ForBytes(bytes) + granule_ - Length(1)).pages() &
                    ~(granule_.pages() - 1));
  const PageRange range = {span.first_page, span.first_page + std::min(span.in_use.written, used)};
  if (range.length() <= kHugepagePages || !span.zero_filled ||
      state_.hints.releasing.value() == Releasing::kNever) {
    memset(range.start_address(), 0, std::min(bytes, range.bytes()));
  } else if (vm_.KnowsBacked()) {
    ClearOrReplace(range);
  } else {
    ClearUnasked(range);
  }
}

void AddressSpace::ClearOrReplace(PageRange range) {
  // What lies between here and the current piece is to be replaced, in one call.
  PageId done = range.first;
  for (PageId at = range.first; at < range.end;) {
    const PageRange piece = {at, std::min(HugepageEnd(at), range.end)};
    at = piece.end;
    // All of a hugepage is backed, so to replace a piece splits none.
    if (BackedBytes(piece) <= piece.bytes() / kReplacedPart) continue;
    Replace({done, piece.first});
    ClearAll(piece);
    done = piece.end;
  }
  Replace({done, range.end});
}

void AddressSpace::ClearUnasked(PageRange range) {
  if (range.length() < kMinReplacedBlindly) return ClearAll(range);
  const PageRange whole = {HugepageEnd(range.first - Length(1)), HugepageStart(range.end)};
  ClearAll({range.first, whole.first});
  Replace(whole);
  ClearAll({whole.end, range.end});
}

void AddressSpace::ClearAll(PageRange range) { memset(range.start_address(), 0, range.bytes()); }

void AddressSpace::Replace(PageRange range) {
  if (range.length() == Length(0)) return;
  // When the OS refuses (mlock), a part may have been released nevertheless.
  if (!vm_.Release(range.start_address(), range.bytes())) ClearAll(range);
}

bool PageState::AddRecords() {
  constexpr size_t kRecordsPerBlock = kSpanRecordsBytes / sizeof(Span);
  char* const memory = static_cast<char*>(arena.Allocate(kRecordsPerBlock * sizeof(Span)));
  if (memory == nullptr) return false;
  const SpinLockHolder holder(lock);
  for (size_t i = 0; i < kRecordsPerBlock; ++i) {
    store.ReturnRecord(new (memory + i * sizeof(Span)) Span);
  }
  return true;
}

}  // namespace tcmalloc
