// SPDX-License-Identifier: BSD-3-Clause
// PageState: the state that the parts of a page heap share: the store and the governor, the lock
// that guards both, and the one way to operate on the store.
//
// An operation on the store takes span records. Records may need memory from the OS, which must not
// be called under the lock. So each operation has three steps: WithRecords provides the records,
// takes the lock, and calls a function that decides; the decision is carried out without the lock;
// the result is recorded with the lock held again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "base/config.h"
#include "base/units.h"
#include "os/clock.h"
#include "os/spinlock.h"
#include "page_heap/governor.h"
#include "page_heap/hugepage.h"
#include "page_heap/metadata_arena.h"
#include "page_heap/page_map.h"
#include "page_heap/page_stats.h"
#include "page_heap/span.h"
#include "page_heap/span_home.h"
#include "page_heap/span_store.h"

namespace tcmalloc {

struct PageHeapOptions {
  // When the OS has no address space left (RLIMIT_AS), free memory is unmapped. It is mapped anew
  // in one piece where a request is longer than any free span, and is left to the rest of the
  // process where more than half of the heap is free. Each unmapping may split a mapping.
  bool unmap_when_short = false;
  // With this much in use the heap grows by hugepages.
  Length hugepage_threshold = Length(kHugepageThreshold.pages());
  // See SavesSpace.
  Length spare_space = Length(kMaxGrowth.pages());
  // The clock of ReleasePolicy and Span::in_use.
  int64_t (*now_ms)() = &CoarseMilliseconds;
};

struct PageState {
  // The records that the end of a move takes. They are reserved before it begins, because a move
  // cannot be undone: see AddressSpace::Move.
  static constexpr size_t kRecordsPerMove = 6;

  PageState(PageMap& page_map, MetadataArena& the_arena, Length granule,
            const PageHeapOptions& options)
      : arena(the_arena),
        store(page_map, homes, granule, options.spare_space),
        governor(hints, granule, options.hugepage_threshold) {}

  // Calls f() with the lock held and with enough records for one operation. False, without calling
  // it, when there is no memory for records.
  template <typename F>
  [[nodiscard]] bool WithRecords(F f) TC_NO_THREAD_SAFETY_ANALYSIS {
    do {
      const SpinLockHolder holder(lock);
      if (MayTakeRecords(SpanStore::kRecordsPerOperation)) {
        f();
        return true;
      }
    } while (AddRecords());
    return false;
  }

  // Whether there are `n` records beyond the spare ones and those that moves in flight need.
  bool MayTakeRecords(size_t n) const TC_REQUIRES(lock) {
    return store.num_records() >= n + SpanStore::kSpareRecords + moves_in_flight * kRecordsPerMove;
  }
  Governor::Held Held() const TC_REQUIRES(lock) {
    return {.system = Length(store.counts.system_bytes >> kPageShift),
            .in_use = store.in_use(),
            .free_backed = store.free(SpanStore::kBacked),
            .backed_bytes = store.counts.system_bytes - store.free(SpanStore::kReleased).bytes() +
                            arena.mapped_bytes()};
  }
  // More is in use, and `fresh` pages of it were not backed. Where there are any, no part of the
  // free backed memory was long enough: see DemandHistory. `now_ms`: 0 if it is not known.
  void NoteDemand(Length fresh, int64_t now_ms = 0) TC_REQUIRES(lock) {
    const Length in_use = store.NoteInUse();
    hints.in_use_bytes.Set(in_use.bytes());
    const Length unfit = fresh > Length(0) ? store.free(SpanStore::kBacked) : Length(0);
    governor.NoteDemand(in_use, unfit, fresh, now_ms);
  }

  // The following objects have locks or atomics of their own.
  MetadataArena& arena;
  PageHints hints;
  SpanHomes homes;
  SampledObjects sampled;

  // On a line of its own: threads that do not take the lock read the hints and homes.
  alignas(kCacheLineSize) SpinLock lock{LockRank::kPageHeap};
  SpanStore store TC_GUARDED_BY(lock);
  Governor governor TC_GUARDED_BY(lock);
  // kRecordsPerMove records are reserved for each.
  size_t moves_in_flight TC_GUARDED_BY(lock) = 0;

 private:
  bool AddRecords() TC_EXCLUDES(lock);
};

}  // namespace tcmalloc
