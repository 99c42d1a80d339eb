// SPDX-License-Identifier: BSD-3-Clause
// HoleRelease: gives back to the system the memory of free objects in spans that are in use. What a
// few long-lived objects among many freed ones hold on to is then their own hardware pages, not
// their spans. Only when asked: the memory costs a page fault when the objects are handed out
// again, and a system call for each run of pages now.
//
// Rule. The heap is walked in the order of addresses. Of each span's holes the objects are claimed
// (CentralFreeList::ClaimHoles); when there are enough (HoleClaims), the memory goes, joined across
// spans where holes meet, without a lock; then the objects return. So a lock is held for the walk
// over one bitmap, and no one waits for the system. What other threads allocate meanwhile comes
// from other objects.
//
// Never seen here: spans without free objects, spans that a SpanCache keeps, objects that lie in
// caches. Whoever wants those flushes first.
//
// Fork. A child takes back what threads that it lacks had claimed; none is lost.
//
// Lock: LockRank::kHoles, for a list operation. Thread safety: any; several threads at once share
// the work unevenly. Cost: a byte per page of the heap, two locks for each span with holes, a
// system call for each run of pages.
#pragma once

#include <cstddef>

#include "base/counters.h"
#include "base/intrusive_list.h"
#include "base/units.h"
#include "central/central_cache.h"
#include "central/hole_claims.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"
#include "page/metadata_arena.h"
#include "page/page_heap.h"
#include "page/page_map.h"

namespace tcmalloc {

class HoleRelease {
 public:
  HoleRelease(VirtualMemory& vm, PageHeap& page_heap, PageMap& page_map, MetadataArena& arena,
              CentralCache& central)
      : vm_(vm), page_heap_(page_heap), page_map_(page_map), arena_(arena), central_(central) {}
  HoleRelease(const HoleRelease&) = delete;
  HoleRelease& operator=(const HoleRelease&) = delete;

  // Gives all holes back; returns the bytes that went. 0 also when there is no memory for a record.
  size_t ReleaseAll() TC_EXCLUDES(lock_);

  // Calls f(span, first object, number of objects) for what is claimed at the moment: it is free,
  // though its bits are clear.
  template <typename F>
  void ForEachClaim(F f) TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    for (HoleClaims* claims = in_flight_.first(); claims != nullptr;
         claims = in_flight_.Next(claims)) {
      for (const HoleClaims::Entry& entry : *claims) {
        f(entry.span, entry.hole.first_object, entry.hole.num_objects);
      }
    }
  }

  // In a forked child, when its locks are free: returns what the parent's threads had claimed.
  void ReturnOthersInChild() TC_EXCLUDES(lock_);

  // Memory in holes, at most as long as no one writes to it behind our back: what is handed out
  // again counts no more.
  size_t hole_bytes();
  // System calls that gave something back.
  size_t releases() const { return releases_.value(); }
  // What they gave back, all together.
  size_t released_total_bytes() const { return released_total_bytes_.value(); }

  SpinLock& lock() { return lock_; }

 private:
  // Claims the holes of the span that `*page` is in, if it is one; false when `claims` is full.
  bool ClaimAt(PageId* page, HoleClaims* claims);
  // Gives back what is claimed, and returns it to its spans. Returns the bytes that went and had
  // not gone before.
  size_t ReleaseClaims(HoleClaims* claims) TC_EXCLUDES(lock_);
  void ReturnClaims(HoleClaims* claims) TC_EXCLUDES(lock_);
  uintptr_t StartOf(const HoleClaims::Entry& entry) const {
    return entry.span->first_page.start_uintptr() + entry.hole.first_page * HardwarePageSize();
  }
  size_t BytesOf(const HoleClaims::Entry& entry) const {
    return entry.hole.num_pages * HardwarePageSize();
  }
  size_t HardwarePageSize() const { return vm_.hardware_page_size(); }
  // False when the system does not take it.
  bool Release(uintptr_t start, size_t bytes);

  // Constant after construction.
  VirtualMemory& vm_;
  PageHeap& page_heap_;
  PageMap& page_map_;
  MetadataArena& arena_;
  CentralCache& central_;

  SpinLock lock_{LockRank::kHoles};
  // Of all threads that are at it.
  IntrusiveList<HoleClaims> in_flight_ TC_GUARDED_BY(lock_);

  // Provides its own synchronization.
  SharedCounter releases_;
  SharedCounter released_total_bytes_;
};

}  // namespace tcmalloc
