// SPDX-License-Identifier: BSD-3-Clause
#include "central/hole_release.h"

#include <new>

#include "page_heap/span.h"

namespace tcmalloc {

size_t HoleRelease::ReleaseAll() {
  void* const memory = arena_.Allocate(sizeof(HoleClaims));
  if (memory == nullptr) return 0;
  HoleClaims* const claims = new (memory) HoleClaims;
  {
    const SpinLockHolder holder(lock_);
    in_flight_.Prepend(claims);
  }
  size_t bytes = 0;
  for (PageRange part{}; page_heap_.store()->FindSmall(&part);) {
    while (part.first < part.end) {
      if (!ClaimAt(&part.first, claims)) bytes += ReleaseClaims(claims);
    }
  }
  bytes += ReleaseClaims(claims);
  {
    const SpinLockHolder holder(lock_);
    in_flight_.Remove(claims);
  }
  arena_.Free(claims, sizeof(HoleClaims));
  return bytes;
}

bool HoleRelease::ClaimAt(PageId* page, HoleClaims* claims) {
  if (page_map_.ClassOf(page->start_address()) != SizeClass::kNone) {
    // Both are hints: ClaimHoles checks them under the lock that they lead to.
    Span* const span = page_map_.SpanOf(*page);
    const SpanOwner owner = span != nullptr ? SpanOwner::Of(span) : SpanOwner();
    if (owner.counted()) {
      return central_.free_list(owner.size_class())
          .ClaimHoles(span, owner, HardwarePageSize(), claims, page);
    }
  }
  *page += Length(1);
  return true;
}

bool HoleRelease::Release(uintptr_t start, size_t bytes) {
  page_heap_.address_space().StopHugepagesAt(PageId(start >> kPageShift), true);
  page_heap_.address_space().StopHugepagesAt(PageId((start + bytes - 1) >> kPageShift), true);
  const bool released = vm_.Release(reinterpret_cast<void*>(start), bytes);
  if (released) releases_.Add(1);
  return released;
}

size_t HoleRelease::ReleaseClaims(HoleClaims* claims) {
  using Entry = HoleClaims::Entry;
  size_t released = 0;
  for (Entry* first = claims->begin(); first != claims->end();) {
    const uintptr_t start = StartOf(*first);
    size_t bytes = BytesOf(*first);
    Entry* next = first + 1;
    for (; next != claims->end() && StartOf(*next) == start + bytes; ++next)
      bytes += BytesOf(*next);
    if (Release(start, bytes)) {
      released += bytes;
      first = next;
      continue;
    }
    // A part of the range may be locked in memory: release the holes one by one.
    for (const bool alone = next == first + 1; first != next; ++first) {
      if (!alone && Release(StartOf(*first), BytesOf(*first))) {
        released += BytesOf(*first);
      } else {
        first->hole.num_pages = 0;
      }
    }
  }
  const size_t known = claims->known_pages() * HardwarePageSize();
  ReturnClaims(claims);
  const size_t fresh = released > known ? released - known : 0;
  released_total_bytes_.Add(fresh);
  return fresh;
}

void HoleRelease::ReturnClaims(HoleClaims* claims) {
  while (!claims->empty()) {
    const SizeClass c = SpanOwner::Of(claims->begin()->span).size_class();
    central_.free_list(c).ReturnHolesOfOneSpan(claims);
  }
  const SpinLockHolder holder(lock_);
  claims->Reset();
}

void HoleRelease::ReturnOthersInChild() {
  for (;;) {
    HoleClaims* claims;
    {
      const SpinLockHolder holder(lock_);
      claims = in_flight_.first();
      // A signal handler may have forked during this thread's own release, which then continues.
      while (claims != nullptr && claims->thread == ThisThreadNumber()) {
        claims = IntrusiveList<HoleClaims>::Next(claims);
      }
      if (claims != nullptr) in_flight_.Remove(claims);
    }
    if (claims == nullptr) return;
    // It is not known whether the memory was released before the fork.
    for (HoleClaims::Entry& entry : *claims) entry.hole.num_pages = 0;
    ReturnClaims(claims);
    arena_.Free(claims, sizeof(HoleClaims));
  }
}

size_t HoleRelease::hole_bytes() {
  // Holes are counted only after a release.
  if (releases() == 0) return 0;
  size_t pages = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    pages += central_.free_list(static_cast<SizeClass>(i)).hole_pages();
  }
  return pages * HardwarePageSize();
}

}  // namespace tcmalloc
