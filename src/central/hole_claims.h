// SPDX-License-Identifier: BSD-3-Clause
// HoleClaims: the holes that one thread is giving back to the system at the moment, and with them
// the free objects that it has claimed for that long. A record of its own, and not on the thread's
// stack, so that a forked child finds what a thread that it lacks had claimed.
//
// Synchronization. Written by the thread that has it. What is in it changes only together with the
// bits of a span, under the lock of that span's owner, and is emptied under HoleRelease's: who
// holds all those locks (fork) sees each claimed object here once.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "base/intrusive_list.h"
#include "base/tuning.h"
#include "central/span_holes.h"
#include "os/thread_number.h"
#include "page/span.h"

namespace tcmalloc {

class HoleClaims {
 public:
  // A hole of a span; num_pages is 0 when the system did not take it.
  struct Entry {
    Span* span;
    SpanHole hole;
  };

  static constexpr size_t kMaxHoles = 250;

  // `n` more holes fit, and there is not enough yet.
  bool HasRoomFor(size_t n) const {
    return end_ + n <= kMaxHoles && bytes_ < kTuning.trim.claimed_at_once_bytes;
  }
  void Add(Span* span, const SpanHole& hole, size_t hardware_page_size) {
    TC_ASSERT(end_ < kMaxHoles);
    entries_[end_++] = {span, hole};
    bytes_ += hole.num_pages * hardware_page_size;
  }
  // So many of the pages had gone before.
  void AddKnown(size_t pages) { known_pages_ += pages; }
  size_t known_pages() const { return known_pages_; }

  bool empty() const { return begin_ == end_; }
  Entry* begin() { return entries_ + begin_; }
  Entry* end() { return entries_ + end_; }
  void RemoveFirst() { ++begin_; }
  // Requires: empty().
  void Reset() { begin_ = end_ = bytes_ = known_pages_ = 0; }

  ListNode<HoleClaims> list_node;
  // Whose they are (ThisThreadNumber).
  const uint32_t thread = ThisThreadNumber();

 private:
  size_t begin_ = 0;
  size_t end_ = 0;
  // In the holes that were added.
  size_t bytes_ = 0;
  size_t known_pages_ = 0;
  Entry entries_[kMaxHoles];
};

// One block of the metadata arena.
static_assert(sizeof(HoleClaims) <= 4096);

}  // namespace tcmalloc
