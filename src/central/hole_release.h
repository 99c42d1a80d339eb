// SPDX-License-Identifier: BSD-3-Clause
// HoleRelease: releases the memory of free objects in spans that are in use. A few long-lived
// objects among many freed ones then retain their own hardware pages, not their spans. Only on
// request: it costs a system call for each run of pages, and a page fault when the objects are
// handed out again.
//
// Rule. It walks in the order of addresses over the hugepages that may have spans of small objects
// (page_heap/hugepage_counts.h), and claims the objects of each span's holes
// (CentralFreeList::ClaimHoles). When enough are claimed (HoleClaims), it releases the memory
// without a lock, joining holes that meet across spans; then the objects return to their spans. So
// a lock is held for the walk over one bitmap, or for a bounded number of steps of the search for
// hugepages, and no thread waits for the OS. Other threads allocate other objects meanwhile.
//
// Not covered: spans without free objects, spans that a SpanCache keeps, objects in thread caches.
// Flush first to include them.
//
// Fork. A child returns the claims of threads that exist only in the parent; no object is leaked.
//
// Lock: LockRank::kHoles, for a list operation. Thread safety: any thread may call it; several
// threads at once divide the work unevenly. Cost: two bytes per page of the hugepages that it
// searches, and a step for each other hugepage near them, however large the rest of the heap is;
// two locks for each span with holes; a system call for each run of pages.
#pragma once

#include <cstddef>

#include "base/counters.h"
#include "base/intrusive.h"
#include "base/units.h"
#include "central/central_cache.h"
#include "central/hole_claims.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"
#include "page_heap/metadata_arena.h"
#include "page_heap/page_heap.h"
#include "page_heap/page_map.h"

namespace tcmalloc {

class HoleRelease {
 public:
  HoleRelease(VirtualMemory& vm, PageHeap& page_heap, PageMap& page_map, MetadataArena& arena,
              CentralCache& central)
      : vm_(vm), page_heap_(page_heap), page_map_(page_map), arena_(arena), central_(central) {}
  HoleRelease(const HoleRelease&) = delete;
  HoleRelease& operator=(const HoleRelease&) = delete;

  // Releases all holes; returns the bytes. 0 also when there is no memory for a record.
  size_t ReleaseAll() TC_EXCLUDES(lock_);

  // Calls f(span, first object, number of objects) for claimed objects: they are free, although
  // their bits are clear.
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

  // In a forked child, when its locks are free: returns the claims of the parent's other threads.
  void ReturnOthersInChild() TC_EXCLUDES(lock_);

  // Released memory in holes. An object that is handed out ends the hole for this count. Too high
  // if the program writes to free objects.
  size_t hole_bytes();
  // System calls that released something.
  size_t releases() const { return releases_.value(); }
  // The bytes that they released, all together.
  size_t released_total_bytes() const { return released_total_bytes_.value(); }

  SpinLock& lock() { return lock_; }

 private:
  // Claims the holes of the span that `*page` is in, if it is one; false when `claims` is full.
  bool ClaimAt(PageId* page, HoleClaims* claims);
  // Releases the claimed holes and returns their objects to the spans. Returns the bytes released,
  // without those that were released before.
  size_t ReleaseClaims(HoleClaims* claims) TC_EXCLUDES(lock_);
  void ReturnClaims(HoleClaims* claims) TC_EXCLUDES(lock_);
  uintptr_t StartOf(const HoleClaims::Entry& entry) const {
    return entry.span->first_page.start_uintptr() + entry.hole.first_page * HardwarePageSize();
  }
  size_t BytesOf(const HoleClaims::Entry& entry) const {
    return entry.hole.num_pages * HardwarePageSize();
  }
  size_t HardwarePageSize() const { return vm_.hardware_page_size(); }
  // False when the OS does not release it.
  bool Release(uintptr_t start, size_t bytes);

  // Constant after construction.
  VirtualMemory& vm_;
  PageHeap& page_heap_;
  PageMap& page_map_;
  MetadataArena& arena_;
  CentralCache& central_;

  SpinLock lock_{LockRank::kHoles};
  // The claims of all threads that are releasing.
  IntrusiveList<HoleClaims> in_flight_ TC_GUARDED_BY(lock_);

  // Provides its own synchronization.
  SharedCounter releases_;
  SharedCounter released_total_bytes_;
};

}  // namespace tcmalloc
