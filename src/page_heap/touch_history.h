// SPDX-License-Identifier: BSD-3-Clause
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
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/tuned.h"
#include "base/units.h"
#include "page_heap/hugepage.h"

namespace tcmalloc {

// A new span is pre-faulted if its class has this many spans in its shard already: the program will
// probably use all of it. Most classes of a program have one span, which is almost empty. Peak of
// perl hashes.pl: 15,204 KiB with all spans, 14,348 from the 5th, 14,236 from the 9th, 14,296 from
// the 17th (decision 0014).
inline constexpr size_t kSpansBeforePrefault = Tuned(8, 1, 64);
static_assert(std::has_single_bit(kSpansBeforePrefault));
// Spans of a class are not pre-faulted when more than this part of one stayed unbacked. A touched
// page of 4 KiB costs 1.5 us, a pre-faulted one 1.25 us (decision 0014).
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
