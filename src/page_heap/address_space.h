// SPDX-License-Identifier: BSD-3-Clause
// AddressSpace: the system calls of a page heap. It maps memory and asks for hugepages, pre-faults,
// releases free pages and unmaps them, and moves large objects. SpanStore says which memory is
// free and Governor what to do, both under the lock; AddressSpace calls the OS without the lock.
//
// Releases. A span whose memory is being released, or was refused by the OS, is in no list of the
// store until its pass ends. A forked child finds it in `in_flight_` or `refused_`: nothing of a
// pass that the child needs lies on a stack, which it may not have.
//
// Synchronization. LockRank::kPageHeap (PageState::lock).
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/intrusive.h"
#include "base/tuned.h"
#include "base/units.h"
#include "os/memory/virtual_memory.h"
#include "os/threads.h"
#include "page_heap/page_state.h"
#include "page_heap/release_policy.h"

namespace tcmalloc {

// After splitting a hugepage, the heap advises the OS against it. Each advice may cost two
// mappings, so it remembers no more than kStoppedRemembered hugepages, to ask for them again later.
// With more it advises against all hugepages in this much memory around the split one, a power of
// two, for good.
inline constexpr size_t kStoppedRemembered = 256;
inline constexpr Length kStoppedAtOnce = Length::ForBytes(64_MiB);
static_assert(std::has_single_bit(kStoppedAtOnce.pages()));

// calloc of large objects whose memory may have been written to. A page of 4 KiB takes 0.1 to 0.3
// us to clear where it is backed; 1.4 us more where it is not. To replace it takes 0.1 us, and 1.4
// us more if the program writes to it again (decision 0054).
//
// For a large object, calloc releases the pages of a hugepage instead of clearing them if at most
// this part of the hugepage is backed. At one half both cost the same, if the program uses as much
// as the last one did. To ask the OS takes 4 % of the time of objects of 4 MiB that the program
// uses as a whole (decision 0054).
inline constexpr size_t kReplacedPart = Tuned(2, 1, 256);
// If calloc cannot ask the OS which pages are backed, it releases the pages of objects of this
// length or more, and clears shorter objects. A sandbox may end the process for the question.
// glibc's malloc maps each object of 32 MiB or more anew. Not measured.
inline constexpr Length kMinReplacedBlindly = TunedLength(32_MiB, 2_MiB, 1_GiB);

// The most attempts of realloc to move pages in the life of the process. Each may leave the process
// with two more mappings, and the OS allows 65,530.
inline constexpr size_t kMaxMoves = 1000;
// The most moves at a time; further objects are copied. Span records for the end of each move are
// reserved.
inline constexpr size_t kMaxMovesAtOnce = 8;

class AddressSpace {
 public:
  AddressSpace(PageState& state, VirtualMemory& vm, PageMap& page_map,
               const PageHeapOptions& options)
      : state_(state),
        vm_(vm),
        page_map_(page_map),
        granule_(Length::ForBytes(vm.hardware_page_size())),
        unmap_when_short_(options.unmap_when_short),
        now_ms_(options.now_ms) {}

  // Gets memory from the OS, enough for a request of `n` pages at a multiple of `alignment`.
  [[nodiscard]] bool Grow(Length n, Length alignment) TC_EXCLUDES(state_.lock);
  // The thread that needed the growth calls `observer` after it, with its bytes, without locks.
  // Null: there is no observer.
  void SetGrowthObserver(void (*observer)(size_t bytes)) {
    growth_observer_.store(observer, std::memory_order_release);
  }
  // Pre-faults a new span.
  void Prefault(PageRange range) TC_EXCLUDES(state_.lock);
  // How much of the range is backed: see VirtualMemory::BackedBytes.
  size_t BackedBytes(PageRange range) TC_EXCLUDES(state_.lock) {
    return vm_.BackedBytes(range.start_address(), range.bytes());
  }

  // Makes the first `bytes` bytes of a new large object read as zeroes; `span` is its span. Cost:
  // none where the memory is known to be zero. Else up to the length of a hugepage is cleared. For
  // a longer object, asks the OS which parts are backed, and replaces the parts that are hardly
  // backed by fresh memory.
  void Clear(const Span& span, size_t bytes) TC_EXCLUDES(state_.lock);

  // Releases as planned; returns the number of pages released. Memory that the OS refuses to
  // release (mlock) stays backed, and other memory is released nevertheless.
  Length Release(const ReleasePlan& plan) TC_EXCLUDES(state_.lock);
  // True as soon as more than `releases` slices have been released, by any thread: at once, or when
  // one of the slices that are under way now has been released. False when the OS refused them all.
  bool WaitForRelease(size_t releases) TC_EXCLUDES(state_.lock);
  // In a forked child, with the lock held by this thread: spans that another thread was releasing
  // are free again, and what another was moving is moving no longer. A signal handler may have
  // forked in the middle of a pass or a move of this thread, which goes on.
  void RestoreAfterForkInChild();

  // Advises the OS against the hugepage of `page`, which is about to be released while other pages
  // of its hugepage stay in use. Else khugepaged would make the hugepage whole again (unless its
  // max_ptes_none is 0), and so would the first write to any other page of it that was never
  // written to. First takes back the advice that is no longer needed.
  // `in_used_span`: the page is a free one inside a used span; then the OS is asked for hugepages
  // again only after no page of the hugepage is in use any more.
  void StopHugepagesAt(PageId page, bool in_used_span) TC_EXCLUDES(state_.lock);

  // Unmaps free spans, the longest first, until at least `n` pages are unmapped or the OS has
  // refused `max_refusals` spans. It refuses memory from sbrk, and any when there are too many
  // mappings.
  void UnmapAtLeast(Length n, size_t max_refusals) TC_EXCLUDES(state_.lock);
  // To be called after a free while there is a shortage: unmaps free memory when it is more than
  // half of the heap. The rest of the process needs address space too, for example for thread
  // stacks. It does so for kReleaseMemoryMs from the first time on: then the limit may have been
  // raised, and memory that is mapped anew again and again costs page faults.
  void UnmapWhenShort() TC_EXCLUDES(state_.lock);

  // See PageHeap::MoveLargeAt. `*freed`: what Governor::NoteFreed returned.
  Span* Move(Span* span, const void* p, Length n, void** sample, Length* freed)
      TC_EXCLUDES(state_.lock);
  // Some thread is in Move: the pages of an object may be at a place that no span knows yet. No
  // move begins while the lock is held.
  bool is_moving() const TC_NO_THREAD_SAFETY_ANALYSIS { return state_.moves_in_flight > 0; }

 private:
  // Which parts of an object are copied and which are moved. In the order of addresses, the old
  // place has a head, which is copied, a part that is moved, and the rest, which is copied. The new
  // mapping has `front` free pages and then the same three parts. Hugepages are moved whole.
  struct MovePlan {
    bool hugepages;
    bool advise;  // there are hugepages
    Length front;
    Length head;
    Length moved;
    Length mapped;

    // The size of the part by which VirtualMemory::MayMove judges memory.
    size_t SampleBytes(Length granule) const { return hugepages ? kHugepageSize : granule.bytes(); }
  };

  static PageRange PagesOf(const Mapping& mapping) {
    const PageId first = PageId::Containing(mapping.start);
    return {first, first + Length(mapping.bytes >> kPageShift)};
  }
  bool GrowBy(Length n, bool hugepages, HugepageMode mode) TC_EXCLUDES(state_.lock);
  // Maps new memory, which does not belong to the heap yet, and its leaves of the page map. Without
  // pages when the OS refuses.
  Mapping MapNew(Length n, size_t alignment) TC_EXCLUDES(state_.lock);
  // Adds the mapping to the heap.
  Span* AddMapping(const Mapping& mapping, bool hugepages) TC_REQUIRES(state_.lock);
  void NotifyGrowth(Length n);
  // Asks the OS for hugepages again where it was advised against them and where no hugepage is
  // split any more: each is either released as a whole, or has no released page and no free pages
  // inside used spans that were released.
  void ResumeHugepages() TC_EXCLUDES(state_.lock);

  // Releases one slice of at most `limit` pages, or with `in_parts` as many of a long span as
  // SpanStore::TakeReleasable takes at once; returns their length, 0 when there is none.
  // `*released`: false when the OS refused one. What was refused is set aside, unless it is a part
  // of several slices, which can be tried one by one.
  Length ReleaseNext(Length limit, bool may_split, bool in_parts, bool* released)
      TC_EXCLUDES(state_.lock);
  // A system call for each slice; false once the OS refuses one.
  bool ReleasePages(PageRange range);
  static size_t SlicesOf(Length n) {
    return (n.pages() + kReleaseSlice.pages() - 1) / kReleaseSlice.pages();
  }
  // Some slice is on its way for which f(span) holds.
  template <typename F>
  bool AnyUnderWay(F f) const TC_REQUIRES(state_.lock);
  bool IsUnderWay(PageRange range) const TC_REQUIRES(state_.lock);

  // Asks the OS, and clears or replaces each hugepage of the range, or part of one, as a whole.
  void ClearOrReplace(PageRange range);
  // Replaces long memory without asking, but no part of a hugepage, which another span may share.
  void ClearUnasked(PageRange range);
  static void ClearAll(PageRange range);
  void Replace(PageRange range);

  // The steps of Move, in their order. The first two decide whether there is a move.
  bool PlanMove(const Span& span, Length n, MovePlan* plan) TC_REQUIRES(state_.lock);
  // Counts the move that it plans as under way.
  bool BeginMove(const Span* span, const void* p, Length n, MovePlan* plan)
      TC_EXCLUDES(state_.lock);
  // Maps the new place. Without pages when the OS refuses that or would refuse the move.
  Mapping MapForMove(const Span& span, const MovePlan& plan) TC_EXCLUDES(state_.lock);
  // Moves and copies the contents. On failure they are still at the old place, and a zero-filled
  // mapping was unmapped.
  bool MovePages(const Span& span, const MovePlan& plan, Mapping* mapping) TC_EXCLUDES(state_.lock);
  // Takes the new span at `place` in the added span, and frees `span`.
  Span* ReplaceBy(Span* added, PageId place, const MovePlan& plan, Span* span, Length n,
                  void** sample, Length* freed) TC_REQUIRES(state_.lock);

  PageState& state_;
  VirtualMemory& vm_;
  PageMap& page_map_;
  const Length granule_;  // pages of ours in a hardware page, at least 1
  const bool unmap_when_short_;
  int64_t (*const now_ms_)();

  // On their way to the OS.
  IntrusiveList<Span> in_flight_ TC_GUARDED_BY(state_.lock);
  // Set aside so that a pass does not meet them again. Of all passes: each takes as many out as it
  // put in, which may be others', and these meet them again.
  IntrusiveList<Span> refused_ TC_GUARDED_BY(state_.lock);
  // The threads that are in Move; 0: none.
  std::array<uint32_t, kMaxMovesAtOnce> moving_threads_ TC_GUARDED_BY(state_.lock) = {};
  uint64_t releases_begun_ TC_GUARDED_BY(state_.lock) = 0;
  size_t release_waiters_ TC_GUARDED_BY(state_.lock) = 0;
  // Whether UnmapWhenShort has unmapped memory since the OS last refused a mapping, and the time of
  // the first such call; before it, that of the refusal.
  bool unmapped_since_ TC_GUARDED_BY(state_.lock) = false;
  int64_t shortage_ms_ TC_GUARDED_BY(state_.lock) = 0;
  // Where the OS was advised against hugepages, as far as there is room to remember it.
  std::array<PageRange, kStoppedRemembered> stopped_ TC_GUARDED_BY(state_.lock) = {};
  size_t num_stopped_ TC_GUARDED_BY(state_.lock) = 0;

  // The futex of threads in WaitForRelease: changes when a slice ends, with the lock held. A
  // thread that wakes up takes the lock to read the outcome, so relaxed suffices.
  std::atomic<uint32_t> release_ends_{0};
  // These decide only what is tried, so relaxed suffices.
  Relaxed<bool> can_prefault_{true};
  std::atomic<size_t> moves_left_{kMaxMoves};
  std::atomic<void (*)(size_t)> growth_observer_{nullptr};
};

}  // namespace tcmalloc
