// SPDX-License-Identifier: BSD-3-Clause
// Free pages inside used spans: finding them in a bitmap, and claiming them for a release.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/config.h"
#include "base/intrusive.h"
#include "base/units.h"
#include "os/threads.h"
#include "page_heap/span.h"

namespace tcmalloc {

// The most memory that a trim claims at once, and that no thread can allocate meanwhile: enough for
// a series of system calls, little in a heap worth trimming.
inline constexpr size_t kClaimedAtOnceBytes = 8_MiB;

// Holes: the hardware pages of a span in use on which no object in use has a byte, so that their
// memory can be released. Pure functions of a bitmap and of a span's measures.
//
// A hole ends where an object in use begins, at the border of hardware pages before it: parts of
// free objects at the hole's ends may lie in it. The rest of the span after the last object counts
// as part of that object: it is released when that one is free.

// One hole: its hardware pages, counted from the start of the span, and the objects that have a
// byte in them; the last object of the span includes the rest after it. Each hole has at least one
// object, and no object is in two holes.
struct SpanHole {
  uint16_t first_page;
  uint16_t num_pages;
  uint16_t first_object;
  uint16_t num_objects;
};

// The measures of a span. It starts at a border of hardware pages.
struct SpanMeasures {
  size_t object_size;
  size_t num_objects;
  size_t hardware_page_size;
  size_t num_hardware_pages;

  // Between two holes lie an object in use and a hardware page that it occupies.
  size_t MostHoles() const {
    const size_t by_pages = (num_hardware_pages + 1) / 2;
    const size_t by_objects = (num_objects + 1) / 2;
    return by_pages < by_objects ? by_pages : by_objects;
  }
};

// Calls f(hole) for every hole, in the order of addresses, each as long as possible. A set bit is a
// free object. Cost: a few nanoseconds for each hardware page.
template <typename F>
void ForEachHole(const uint64_t* free_bits, const SpanMeasures& span, F f) {
  const size_t page_size = span.hardware_page_size;
  for (size_t end = 0;;) {
    // No hole begins before the first page border at or after a free object.
    const size_t first_free = FindSetBit(free_bits, end, span.num_objects);
    if (first_free == span.num_objects) return;
    const size_t first_page = (first_free * span.object_size + page_size - 1) / page_size;
    if (first_page >= span.num_hardware_pages) return;
    const size_t first_object = first_page * page_size / span.object_size;
    // The bytes after the last object are fewer than an object, and begin in a page of that object.
    TC_ASSERT(first_object < span.num_objects);
    end = FindClearBit(free_bits, first_object, span.num_objects);
    const size_t end_page =
        end == span.num_objects ? span.num_hardware_pages : end * span.object_size / page_size;
    if (first_page >= end_page) continue;
    size_t end_object = (end_page * page_size - 1) / span.object_size + 1;
    if (end_object > end) end_object = end;
    f(SpanHole{static_cast<uint16_t>(first_page), static_cast<uint16_t>(end_page - first_page),
               static_cast<uint16_t>(first_object),
               static_cast<uint16_t>(end_object - first_object)});
  }
}

// The holes that one thread is releasing at the moment, and the free objects that it
// has claimed for that. It is not on the thread's stack: a forked child must find what a thread
// that exists only in the parent had claimed.
//
// Synchronization. Written by its thread. Entries are added together with a change of the span's
// bits, under the lock of that span's owner, and removed in the same way; Reset is called under
// HoleRelease's lock. So a thread that holds all those locks (fork) sees each claimed object once.
class HoleClaims {
 public:
  // A hole of a span; num_pages is 0 when the OS did not release it.
  struct Entry {
    Span* span;
    SpanHole hole;
  };

  static constexpr size_t kMaxHoles = 250;

  // `n` more holes fit, and the claims are below the limit for one round.
  bool HasRoomFor(size_t n) const { return end_ + n <= kMaxHoles && bytes_ < kClaimedAtOnceBytes; }
  void Add(Span* span, const SpanHole& hole, size_t hardware_page_size) {
    TC_ASSERT(end_ < kMaxHoles);
    entries_[end_++] = {span, hole};
    bytes_ += hole.num_pages * hardware_page_size;
  }
  // `pages` of the pages were released before.
  void AddKnown(size_t pages) { known_pages_ += pages; }
  size_t known_pages() const { return known_pages_; }

  bool empty() const { return begin_ == end_; }
  Entry* begin() { return entries_ + begin_; }
  Entry* end() { return entries_ + end_; }
  void RemoveFirst() { ++begin_; }
  // Requires: empty().
  void Reset() { begin_ = end_ = bytes_ = known_pages_ = 0; }

  ListNode<HoleClaims> list_node;
  // The thread that claimed (ThisThreadNumber).
  const uint32_t thread = ThisThreadNumber();

 private:
  size_t begin_ = 0;
  size_t end_ = 0;
  // Of the holes that were added.
  size_t bytes_ = 0;
  size_t known_pages_ = 0;
  Entry entries_[kMaxHoles];
};

// One block of the metadata arena.
static_assert(sizeof(HoleClaims) <= 4096);

}  // namespace tcmalloc
