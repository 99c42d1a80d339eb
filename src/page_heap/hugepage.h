// SPDX-License-Identifier: BSD-3-Clause
// What the page heap knows about each hugepage, 2 MiB of addresses at a multiple of 2 MiB, when it
// asks for hugepages, and whether it pre-faults a new span (TouchHistory).
//
// Where the OS was asked for hugepages, the first write to an entirely unbacked hugepage backs all
// of it. So free pages that share a hugepage with pages in use are backed, whether they were used
// or not. They count as released again only when all pages of the hugepage have been released.
// `released` distinguishes the cases.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/size_classes.h"
#include "base/tuned.h"
#include "base/units.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {

inline constexpr Length kHugepagePages = Length(kHugepageSize >> kPageShift);

// Guarded by the page heap's lock.
struct Hugepage {
  // Pages in use.
  uint16_t used = 0;
  // Unbacked pages in free spans.
  uint16_t released = 0;
  // All of its pages belong to the heap, and the OS was asked to back them by a hugepage.
  bool advised = false;
  // Free pages inside its used spans may have been released (see HoleRelease).
  bool holes : 1 = false;
  // See SmallPlaces.
  bool small : 1 = false;

  // The first write to any byte backs all of it.
  bool BackedAtOnce() const { return advised && released == kHugepagePages.pages(); }
};
static_assert(sizeof(Hugepage) == 6);

// The first page of the hugepage that `page` is in, and of the next.
constexpr PageId HugepageStart(PageId page) {
  return PageId(page.index() & ~(kHugepagePages.pages() - 1));
}
constexpr PageId HugepageEnd(PageId page) { return HugepageStart(page) + kHugepagePages; }

// `n` rounded up to whole hugepages.
constexpr Length InWholeHugepages(Length n) {
  return Length((n.pages() + kHugepagePages.pages() - 1) & ~(kHugepagePages.pages() - 1));
}

// A heap with this many backed bytes or more asks for hugepages when it grows. In a smaller one, 2
// MiB would be a visible part of the process. 16 MiB: 10 % faster with buffers, 9 % more memory in
// a program of 29 MiB. 64 MiB: slower in each row (decision 0014).
inline constexpr Length kHugepageThreshold = TunedLength(32_MiB, 2_MiB, 1_GiB);
// When the heap grows for an object of kHugeObject or more, it asks for hugepages if at least
// kHugepageThreshold / kEarlyPart of it is backed. Such a huge object fills half of a hugepage or
// more. This lowers the page faults of the buffers program from 8,700 to 2,605. From 256 KiB on it
// cost Python 1.3 MiB (decision 0014). realloc moves the pages of a huge object instead of copying
// it: a move takes about 10 us, like copying 32 KiB into fresh memory or 256 KiB into hugepages
// (Linux 6.18, x86), but the number of moves is limited (kMaxMoves).
inline constexpr Length kHugeObject = TunedLength(1_MiB, 256_KiB, 2_MiB);
static_assert(kHugeObject.bytes() >= kMaxSmallSize, "only large objects have pages of their own");
inline constexpr size_t kEarlyPart = Tuned(4, 1, 16);

// When the heap asks for hugepages. Pure functions.
namespace hugepage_policy {

// Whether the heap grows by whole hugepages. `held`: backed pages, in use or free; `request`: the
// pages to be allocated.
constexpr bool GrowInHugepages(HugepageMode mode, Length held, Length request, Length threshold) {
  if (mode == HugepageMode::kNever) return false;
  return held >= threshold ||
         (request >= kHugeObject && held.pages() * kEarlyPart >= threshold.pages());
}

// Whether to advise the OS against hugepages: needed if the OS makes them without being asked.
constexpr bool OptOut(HugepageMode mode, bool in_hugepages) {
  return mode == HugepageMode::kAlways && !in_hugepages;
}

// What is known of a new span's pages.
enum class Need : bool {
  kUnknown,
  kWhole,  // all of them will be touched soon
};

}  // namespace hugepage_policy

// TouchHistory: whether the program touches what it allocates from one size class, in one shard. It
// decides which new spans are pre-faulted: some programs never touch most of what they allocate.
//
// Rule. A class that has filled many spans is likely to fill more. Each time that their number
// doubles, one new span is not pre-faulted. When the next one is needed, the objects of that span
// have been allocated; the OS knows how much of it the program has touched.
//
// Synchronization: relaxed atomics. Threads that share the shard may mix their notes, and the span
// may be free again when it is examined; a wrong answer costs page faults, or memory until the
// number of spans has doubled. Cost: one question to the OS for each doubling.

// A new span is pre-faulted if its class already has this many spans in its shard. The program will
// probably use all of it. Most classes of a program have one span, which is almost empty. The peak
// of perl hashes.pl is 15,204 KiB if all spans are pre-faulted, 14,348 from the 5th span on, 14,236
// from the 9th, 14,296 from the 17th (decision 0014).
inline constexpr size_t kSpansBeforePrefault = Tuned(8, 1, 64);
static_assert(std::has_single_bit(kSpansBeforePrefault));
// In a trial, the heap hands out a span without a pre-fault; if more than this part of the span
// stays unbacked, the next spans of its class are not pre-faulted either. A touched page of 4 KiB
// costs 1.5 us, a pre-faulted one 1.25 us (decision 0014).
inline constexpr size_t kUntouchedPart = Tuned(4, 2, 16);

class TouchHistory {
 public:
  using Need = hugepage_policy::Need;

  // The new span of a class that has `num_spans` spans shows what the program touches.
  static constexpr bool IsTrial(size_t num_spans) {
    return num_spans < kSpansBeforePrefault || std::has_single_bit(num_spans + 1);
  }

  // What such a new span needs. backed_bytes(range) returns how much of the range is backed; `n`:
  // the pages of each span.
  template <typename F>
  Need NeedOf(size_t num_spans, Length n, F backed_bytes) {
    if (IsTrial(num_spans)) return Need::kUnknown;
    const PageId first(trial_.load(std::memory_order_relaxed));
    if (first != PageId()) {
      trial_.store(0, std::memory_order_relaxed);
      const size_t touched = n.bytes() - n.bytes() / kUntouchedPart;
      need_.store(
          backed_bytes(PageRange{first, first + n}) >= touched ? Need::kWhole : Need::kUnknown,
          std::memory_order_relaxed);
    }
    return need_.load(std::memory_order_relaxed);
  }

  // The new span of a trial, which begins at `first`, was unbacked.
  void NoteTrial(PageId first) { trial_.store(first.index(), std::memory_order_relaxed); }

 private:
  // The last trial that was not examined; 0: none.
  std::atomic<uintptr_t> trial_{0};
  // By the last one that was.
  std::atomic<Need> need_{Need::kUnknown};
};

}  // namespace tcmalloc
