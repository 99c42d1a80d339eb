// SPDX-License-Identifier: BSD-3-Clause
// HoleClaims: the holes that one thread is releasing at the moment, and the free objects that it
// has claimed for that. It is not on the thread's stack: a forked child must find what a thread
// that exists only in the parent had claimed.
//
// Synchronization. Written by its thread. Entries are added together with a change of the span's
// bits, under the lock of that span's owner, and removed in the same way; Reset is called under
// HoleRelease's lock. So a thread that holds all those locks (fork) sees each claimed object once.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "base/intrusive_list.h"
#include "base/tuning.h"
#include "central/span_holes.h"
#include "os/thread_number.h"
#include "page_heap/span.h"

namespace tcmalloc {

class HoleClaims {
 public:
  // A hole of a span; num_pages is 0 when the OS did not release it.
  struct Entry {
    Span* span;
    SpanHole hole;
  };

  static constexpr size_t kMaxHoles = 250;

  // `n` more holes fit, and the claims are below the limit for one round.
  bool HasRoomFor(size_t n) const {
    return end_ + n <= kMaxHoles && bytes_ < kTuning.trim.claimed_at_once_bytes;
  }
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
  friend struct FieldTable;

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
