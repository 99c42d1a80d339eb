// SPDX-License-Identifier: BSD-3-Clause
// Span: the record of a run of contiguous pages. The record does not lie in the run.
//
// States. A span is free and counted as backed, free and released (its pages are fresh from the OS
// or were released, so they are not backed), being released, or in use: by a central free list,
// which cuts it into objects, or as one large object.
//
// Fields. first_page, num_pages, state and zero_filled are valid in all states. The others:
//   free         list_node or tree_node, by length; in_run; run_pages and run_node in the first and
//                the last span of a run
//   kReleasing   list_node, after the OS has refused it
//   kSmall       in_use, list_node, owner, hole_pages, free_bits and the fields that describe them
//   kKept        list_node or tree_node, by length; owner; in_use.written
//   kLarge       in_use, sample, sampled_class
//   kUnused      list_node
//
// Invariants
//   S1  num_pages > 0; the span's first and last page name it in the page map, whatever its state.
//   S2  kSmall: free_count <= num_objects, and exactly free_count of the first num_objects bits of
//       free_bits are set.
//
// Synchronization. Page heap's lock: state, first_page, num_pages, links while free. Lock of the
// class's central free list: links and object fields while kSmall. A thread that owns an object may
// read first_page, num_pages, owner, written and zero_filled of its span: they do not change before
// the object is freed, except that realloc of a large object changes num_pages and zero_filled.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/intrusive.h"
#include "base/size_classes.h"
#include "base/units.h"

namespace tcmalloc {

enum class SpanState : uint8_t {
  kUnused,        // no span: a spare record, or one of SpanStore's regions
  kFreeBacked,    // free; may be backed
  kFreeReleased,  // free; not backed, reads as zeroes if it once came zero-filled
  kReleasing,     // free, in no list while its memory is being released
  kSmall,         // in use by a central free list
  kLarge,         // in use as one object
  kKept,          // kept in a SpanPool, or a large object that is being freed or resized
  kMetadata,      // in use by the metadata arena, for good
};

class Span {
 public:
  // The owner of a span in the first SpanPool; the next pools have the next numbers. SpanOwner has
  // other numbers for the owners of spans of small objects.
  static constexpr uint16_t kFirstPool = 1 << 15;

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
  // Makes the large object at `p` kKept, provided that it starts there. A thread claims an object
  // before it frees or resizes it: the program may by mistake do so in two threads, and one of them
  // gets the object.
  bool ClaimLargeAt(const void* p) {
    SpanState large = SpanState::kLarge;
    if (!IsLargeAt(p) ||
        !state.compare_exchange_strong(large, SpanState::kKept, std::memory_order_relaxed)) {
      return false;
    }
    if (start_address() == p) return true;
    // The record was used for another object meanwhile.
    ReturnClaim();
    return false;
  }
  void ReturnClaim() { state.store(SpanState::kLarge, std::memory_order_relaxed); }
  // kLarge: the class of a small object, which has this span because it is sampled; else kNone.
  SizeClass small_class() const { return sampled_class.load(std::memory_order_relaxed); }
  bool has_small_object() const { return small_class() != SizeClass::kNone; }
  // kLarge: the bytes of the object that the program may use.
  size_t object_bytes() const {
    const SizeClass c = small_class();
    return c == SizeClass::kNone ? bytes() : kSizeClasses.size(c);
  }
  // kLarge: moves the sample, or null if there is none, into `*taken` unless `taken` is null; the
  // object is no longer sampled then. Returns the class of a small object, else kNone. Requires:
  // the caller has claimed the object, or moves it.
  SizeClass TakeSample(void** taken) {
    if (taken != nullptr) *taken = sample;
    sample = nullptr;
    const SizeClass c = small_class();
    if (c != SizeClass::kNone) sampled_class.store(SizeClass::kNone, std::memory_order_relaxed);
    return c;
  }

  bool Contains(const void* p) const {
    return reinterpret_cast<uintptr_t>(p) - first_page.start_uintptr() < bytes();
  }

  // A new span in use reads as zeroes.
  bool zeroed() const { return in_use.written == Length(0); }

  // Best fit: shorter spans first, among equals the lowest address.
  static bool Before(const Span& a, const Span& b) {
    if (a.num_pages != b.num_pages) return a.num_pages < b.num_pages;
    return a.first_page < b.first_page;
  }

  // The fields that freeing and handing out a small object need come first, in less than a cache
  // line.
  PageId first_page;
  Length num_pages;
  // kSmall only. A set bit is a free object. Null, inline_bits or memory of the arena. Kept in a
  // SpanCache.
  uint64_t* free_bits = nullptr;
  union {
    // kSmall: where free_bits points when one word is enough.
    uint64_t inline_bits = 0;
    // kLarge, written by the owner of the object: its sample, or null, the initial value.
    void* sample;
    // Free, the first or the last span of a run of FreeRuns: the length of the run.
    Length run_pages;
  };

  // Read without a lock to distinguish a bad pointer from a good one; written with the page heap's
  // lock.
  std::atomic<SpanState> state{SpanState::kUnused};
  // All of it was zero-filled by the OS: its released pages read as zeroes. Page heap's lock.
  bool zero_filled = false;
  // kLarge, written by the owner of the object: the class that it would have if it were not
  // sampled; kNone for all other spans. Relaxed: statistics read it without order.
  std::atomic<SizeClass> sampled_class{SizeClass::kNone};
  // While free: it is in a run of FreeRuns. Page heap's lock.
  bool in_run = false;

  // kSmall: the number of its owner (see SpanOwner), also while it is in a SpanCache. kKept: the
  // number of its SpanPool, while it is in one. Else 0.
  std::atomic<uint16_t> owner{0};
  // kSmall: free hardware pages inside the span that were released since one of its objects was
  // last handed out. Guarded by its owner's lock.
  uint16_t hole_pages = 0;

  // kSmall only. No bit is set in the words before this one.
  uint16_t first_free_word = 0;
  // No whole line batch is free in the words before this one (see CentralFreeList).
  uint16_t first_whole_word = 0;
  // The words in the memory of free_bits.
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
    // kReleasing: the slice, counted from the heap's first, and the thread that releases it. Page
    // heap's lock.
    struct {
      uint64_t slice;
      uint32_t thread;
    } release;
    // kSmall, kLarge, kKept.
    struct {
      // Only this many first pages may have been written since the OS zeroed them. Constant until
      // the span is free again.
      Length written;
      // The time, by the page heap's clock, when it was taken from the free spans or from a span
      // cache; for a large object that was moved, when the object was allocated. Constant until the
      // span is free, or in a cache, again.
      int64_t handed_out_ms;
    } in_use;
  };
};

// Bounds the metadata of a span.
static_assert(sizeof(Span) <= 112);

}  // namespace tcmalloc
