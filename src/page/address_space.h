// SPDX-License-Identifier: BSD-3-Clause
// AddressSpace: what a page heap has the OS do. It maps memory and asks for hugepages, pre-faults,
// releases free pages and unmaps them, and moves large objects. What is free, and what is to be
// done, it gets from SpanStore and Governor, under the lock; it calls the OS outside.
//
// Releases. A span whose memory is being released, or was refused by the OS, is in no list of the
// store until its pass ends. A forked child finds it by `passes_`.
//
// Synchronization. LockRank::kPageHeap (PageState::lock).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/tuning.h"
#include "base/units.h"
#include "os/memory/virtual_memory.h"
#include "os/thread_number.h"
#include "page/page_state.h"

namespace tcmalloc {

class AddressSpace {
 public:
  AddressSpace(PageState& state, VirtualMemory& vm, PageMap& page_map, bool unmap_when_short)
      : state_(state),
        vm_(vm),
        page_map_(page_map),
        granule_(Length::ForBytes(vm.hardware_page_size())),
        unmap_when_short_(unmap_when_short) {}

  // Gets memory from the OS, enough for a request of `n` pages at a multiple of `alignment`.
  [[nodiscard]] bool Grow(Length n, Length alignment) TC_EXCLUDES(state_.lock);
  // Called after each growth with its bytes, by the thread that needed it, without locks. Null for
  // no one.
  void SetGrowthObserver(void (*observer)(size_t bytes)) {
    growth_observer_.store(observer, std::memory_order_release);
  }
  // Pre-faults pages of a new span.
  void Prefault(PageRange range) TC_EXCLUDES(state_.lock);

  // Releases as planned; returns what went. Memory that the OS does not take (mlock) stays backed
  // and does not keep other memory from going.
  Length Release(const ReleasePlan& plan) TC_EXCLUDES(state_.lock);
  // True as soon as more slices have been released than `releases`, by whichever thread: at once,
  // or when one of those that are under way now is done. False when none of these came to anything.
  bool WaitForRelease(size_t releases) TC_EXCLUDES(state_.lock);
  // In a forked child, with the lock held by this thread: spans that another thread was releasing
  // are free again, and what one was moving is moving no longer.
  void RestoreAfterForkInChild();

  // The OS is to make no hugepages around `page`, which is to be released while others of its
  // hugepage stay in use: khugepaged would make it whole again (unless its max_ptes_none is 0), and
  // so would the first write to any other page of it that was never written to. In blocks of
  // Tuning::Hugepages::stopped_at_once, because each may cost two mappings. `in_used_span`: the
  // page is a free one inside a used span; hugepages are made again only after nothing of the
  // hugepage is in use any more.
  void StopHugepagesAt(PageId page, bool in_used_span) TC_EXCLUDES(state_.lock);

  // Takes free spans out of the address space, the longest first, until at least `n` pages went or
  // `max_refusals` spans stayed: the OS keeps what sbrk gave, and refuses when there are too many
  // mappings.
  void UnmapAtLeast(Length n, size_t max_refusals) TC_EXCLUDES(state_.lock);
  // Once the OS has refused a mapping, what is free is no longer kept when it is more than half of
  // the heap: others need address space too, for example for the stacks of threads.
  void UnmapWhenShort() TC_EXCLUDES(state_.lock);

  // See PageHeap::MoveLargeAt. `*time_to_decide`: what Governor::NoteFreed returned.
  Span* Move(Span* span, const void* p, Length n, void** sample, bool* time_to_decide)
      TC_EXCLUDES(state_.lock);
  // Some thread is in Move: an object may have lost its pages to a place that no span knows yet.
  // With the lock held none begins.
  bool is_moving() const TC_NO_THREAD_SAFETY_ANALYSIS { return state_.moves_in_flight > 0; }

 private:
  static constexpr size_t kStoppedRemembered = 64;

  // A pass of releases, on the stack of the thread that makes it.
  struct Pass {
    // On its way to the OS; null between two slices.
    Span* span = nullptr;
    uint64_t number = 0;  // of that slice, counted from the heap's first
    // Set aside so that the pass does not meet them again.
    IntrusiveList<Span> refused;
    uint32_t thread = ThisThreadNumber();
    ListNode<Pass> list_node;
  };
  // What of an object goes where. In the order of the addresses, the old place has a head, which is
  // copied, what is moved, and the rest, which is copied; the new mapping has `front` free pages,
  // then the same. Hugepages are moved whole.
  struct MovePlan {
    bool hugepages;
    bool advise;  // there are hugepages
    Length front;
    Length head;
    Length moved;
    Length mapped;
  };

  bool GrowBy(Length n, bool hugepages, HugepageMode mode) TC_EXCLUDES(state_.lock);
  // New memory that is not yet the heap's, with entries in the page map; without pages when there
  // is none.
  Mapping MapNew(Length n, size_t alignment) TC_EXCLUDES(state_.lock);
  // Makes it the heap's.
  Span* AddMapping(const Mapping& mapping, bool hugepages) TC_REQUIRES(state_.lock);
  void NotifyGrowth(Length n);
  // The OS is to make hugepages again where it was told not to and where none are split any more:
  // either all of one was released, or all of it is in use, without free pages inside used spans.
  void ResumeHugepages() TC_EXCLUDES(state_.lock);

  // Releases one slice of at most `limit` pages; returns its length, 0 when there is none.
  // `*released`: false when the OS refused it.
  Length ReleaseSlice(Pass& pass, Length limit, bool may_split, bool* released)
      TC_EXCLUDES(state_.lock);
  // Some slice is on its way for which f(pass) holds.
  template <typename F>
  bool AnyUnderWay(F f) const TC_REQUIRES(state_.lock);
  bool IsUnderWay(PageRange range) const TC_REQUIRES(state_.lock);

  bool PlanMove(const Span& span, Length n, MovePlan* plan) TC_REQUIRES(state_.lock);

  PageState& state_;
  VirtualMemory& vm_;
  PageMap& page_map_;
  const Length granule_;  // pages of ours in a hardware page, at least 1
  const bool unmap_when_short_;

  IntrusiveList<Pass> passes_ TC_GUARDED_BY(state_.lock);
  uint64_t releases_begun_ TC_GUARDED_BY(state_.lock) = 0;
  size_t release_waiters_ TC_GUARDED_BY(state_.lock) = 0;
  // Where hugepages are not made any more, as far as there is room to remember it.
  std::array<PageRange, kStoppedRemembered> stopped_ TC_GUARDED_BY(state_.lock) = {};
  size_t num_stopped_ TC_GUARDED_BY(state_.lock) = 0;

  // What threads in WaitForRelease sleep on: changes when a slice ends, with the lock held. A
  // thread that wakes up takes the lock to see what came of it, so relaxed suffices.
  std::atomic<uint32_t> release_ends_{0};
  // Decide what is tried, nothing else, so relaxed suffices.
  Relaxed<bool> can_prefault_{true};
  std::atomic<size_t> moves_left_{kTuning.reallocation.max_moves};
  std::atomic<void (*)(size_t)> growth_observer_{nullptr};
};

}  // namespace tcmalloc
