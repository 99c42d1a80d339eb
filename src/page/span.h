// SPDX-License-Identifier: BSD-3-Clause
// Span: the record of a run of contiguous pages. Nothing of it lies in the run itself.
//
// States. A span is free and may be backed ("mapped"), free and released (nothing backs its pages:
// they are fresh from the OS or were released), on its way from the first to the second, or in use:
// by a central free list, which cuts it into objects, or as one large object.
//
// Fields. first_page, num_pages, state and zero_filled are valid in all states; besides:
//   free         list_node or tree_node, by length; in_run; run_pages and run_node in the first and
//                the last span of a run
//   kReleasing   list_node, after the OS has refused it
//   kSmall       in_use, list_node, owner, hole_pages, free_bits and what belongs to them
//   kLarge       in_use, sample, sampled_class
//   kUnused      list_node
//
// Invariants
//   S1  num_pages > 0; the span's first and last page name it in the page map, whatever its state.
//   S2  kSmall: free_count <= num_objects, and exactly free_count of the first num_objects bits of
//       free_bits are set.
//
// Synchronization. Page heap's lock: state, first_page, num_pages, links while free. Class's
// central lock: links and object fields while kSmall. The fields of a span in use that the owner of
// one of its objects may read (first_page, num_pages, owner, written) do not change before that
// object is freed, but for num_pages of a large object, which its realloc changes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/ordered_tree.h"
#include "base/size_classes.h"
#include "base/units.h"

namespace tcmalloc {

enum class SpanState : uint8_t {
  kUnused,        // no span: a spare record, or one that SpanStore uses for something else
  kFreeBacked,    // free; may be backed
  kFreeReleased,  // free; not backed, reads as zeroes if it once came zero-filled
  kReleasing,     // free, taken out of the lists while its memory is released
  kSmall,         // in use by a central free list
  kLarge,         // in use as one object
  kMetadata,      // in use by the metadata arena, for good
};

class Span {
 public:
  constexpr Span() {}
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  void* start_address() const { return first_page.start_address(); }
  size_t bytes() const { return num_pages.bytes(); }
  PageId last_page() const { return first_page + num_pages - Length(1); }
  // The page that follows the last one.
  PageId end() const { return first_page + num_pages; }
  PageRange pages() const { return {first_page, end()}; }
  bool Is(SpanState s) const { return state.load(std::memory_order_relaxed) == s; }
  bool is_free() const {
    const SpanState s = state.load(std::memory_order_relaxed);
    return s == SpanState::kFreeBacked || s == SpanState::kFreeReleased;
  }
  bool IsLargeAt(const void* p) const { return Is(SpanState::kLarge) && start_address() == p; }
  // kLarge: takes the sample out, null where there was none, into `*taken` where that is asked for;
  // the object is like any other then. With the page heap's lock held, since a program may free the
  // object in two threads.
  void TakeSample(void** taken) {
    if (taken != nullptr) *taken = sample;
    sample = nullptr;
    sampled_class = SizeClass::kNone;
  }

  bool Contains(const void* p) const {
    return reinterpret_cast<uintptr_t>(p) - first_page.start_uintptr() < bytes();
  }

  // In use: it reads as zeroes when it is new.
  bool zeroed() const { return in_use.written == Length(0); }

  // Best fit: shorter spans first, among equals the lowest address.
  static bool Before(const Span& a, const Span& b) {
    if (a.num_pages != b.num_pages) return a.num_pages < b.num_pages;
    return a.first_page < b.first_page;
  }

  // What freeing and handing out a small object needs comes first, in less than a cache line.
  PageId first_page;
  Length num_pages;
  // kSmall only. A set bit is a free object. Null, inline_bits or memory of the arena. Kept in a
  // SpanCache.
  uint64_t* free_bits = nullptr;
  union {
    // kSmall: where free_bits points when one word is enough.
    uint64_t inline_bits = 0;
    // kLarge, of the owner of the object: its sample, or null, which it is at first.
    void* sample;
    // Free, the first or the last span of a run of FreeRuns: the length of the run.
    Length run_pages;
  };

  // Read without a lock where a bad pointer has to be told from a good one; written with the page
  // heap's lock.
  std::atomic<SpanState> state{SpanState::kUnused};
  // All of it came zero-filled: what is released of it reads as zeroes. Page heap's lock.
  bool zero_filled = false;
  // kLarge, of the owner of the object: the class that it would have, were it not sampled; kNone of
  // all others.
  SizeClass sampled_class = SizeClass::kNone;
  // While free: it is in a run of FreeRuns. Page heap's lock.
  bool in_run = false;

  // kSmall: what the tier that has the span notes to find it by (SpanOwner); else 0. In a SpanCache
  // it stays.
  std::atomic<uint16_t> owner{0};
  // kSmall: hardware pages of free objects that were released since an object of the span was last
  // handed out. Guarded by its owner's lock.
  uint16_t hole_pages = 0;

  // kSmall only. No bit is set in the words before this one.
  uint16_t first_free_word = 0;
  // No whole line group is free in the words before this one (see CentralFreeList).
  uint16_t first_whole_word = 0;
  // Words that free_bits has room for.
  uint16_t bits_words = 0;
  uint32_t num_objects = 0;
  uint32_t free_count = 0;

  union {
    ListNode<Span> list_node;
    // Free and long: see FreeSpans.
    TreeNode<Span> tree_node = {};
  };
  union {
    // Free, the first or the last span of a run of FreeRuns.
    TreeLinks<Span> run_node = {};
    // kSmall, kLarge.
    struct {
      // Only these first pages may have been written since the OS zeroed them. Constant until
      // the span is free again.
      Length written;
      // When it was handed out, by the page heap's clock, out of its free spans or out of a span
      // cache; of a large object that was moved, when the object was. Constant until the span is
      // free, or in a cache, again.
      int64_t handed_out_ms;
    } in_use;
  };
};

// A record takes no more metadata than this, and arrays of it keep the alignment of the arena.
static_assert(sizeof(Span) <= 112);

}  // namespace tcmalloc
