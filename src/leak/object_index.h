// SPDX-License-Identifier: BSD-3-Clause
// ObjectIndex: every object in use at one moment, findable by any address inside it.
//
// Where it comes from. Nothing is recorded when a program allocates. A span in use by a central
// free list is cut into objects of one size; those whose bits are set are free, and so are those in
// caches: the bins of threads, of threads that have ended and of a parent's threads, and what is
// claimed while the memory behind it goes back to the system (HoleClaims). The others are in use.
// Every span of state kLarge is one object, sampled ones included.
//
// The moment. The heap is held (runtime/heap_hold.h), so everything that a lock protects is as it
// is between two operations. The other threads stand still, each at any instruction of its own, or
// do not allocate and free. What they do outside of locks is this, and nothing else:
//
//   An access section of one object (Bins::Pop and Push, see thread_slot.h). A pop takes effect
//   with the store of the top: before it the object is free and in the bin; behind it, in use and
//   in a register, which is the thread's root. A push stores the object into the slot above the
//   top, then the top: between the two the object is in use, and for a stopped thread inside an
//   access section the slot above each top is in flight, whatever its registers hold. (Outside of
//   one, that slot holds what was allocated last, which is no one's root.)
//
//   A section that changes several things (ThreadCache::changing): a bin's objects are being moved
//   within its array or to another one, and the top may belong to the old array already or still.
//   All that the slots of such a cache hold is in flight. memmove may have what it moves in vector
//   registers alone. So `settled` is false then: who cares lets the threads go on for a moment and
//   looks again.
//
//   Objects between two structures. Those in a function's array on the stack (ThreadCache::Refill
//   and ReturnOldest, CentralCache::Insert) are that thread's roots like any pointer on its stack.
//   Three kinds are not on the stack one by one: what was claimed in a span's bitmap and has not
//   been turned into addresses (CentralFreeList::Remove does that without the lock), arrays that
//   were detached from a cache (flush, the end of a thread), and a cache that passes from a thread
//   that ended to one that starts. Functions that hold such have a mark in their frame
//   (base/in_flight.h), by which the Marker finds them; the third kind is in a list of the
//   registry's.
//
//   A large object whose pages are being moved (page/address_space_move.cc): what it holds may lie
//   where no span is yet. `settled` is false then as well.
//
//   A large object that was just allocated, to which only its span's record leads (its allocation
//   is being sampled, or its pages are being populated): the Marker takes the address of a large
//   object's record on a stack for one of the object.
//
// "In flight" means: in use or free, no one can tell; it counts as in use, and as reachable, so
// that it is never taken for a leak, nor what it points to. Where both a bitmap and a place in
// flight name an object, the bitmap is right: it is free. At most a batch or a cache's content per
// thread is concerned, for one look.
//
// Freed spans. A span whose objects are all free has no home (Span::home) from the moment, under
// the lock, in which its last object came back; a new one has none until the first objects are
// claimed. So a span that is on its way from or to the page heap has no objects here.
//
// Numbers. Objects have numbers in the order of their addresses, with gaps: a small span's begin at
// a multiple of 64, so that its bitmap is copied word by word.
//
// Thread safety: built once, then constant. Cost: a step per span and per cached object to build
// (75 to 90 ms per GiB of 64-byte objects, on a Xeon at 2.8 GHz); 8 bytes per page, 32 per span, 2
// bits per object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/compiler.h"
#include "base/config.h"
#include "base/size_classes.h"
#include "base/units.h"
#include "leak/check_memory.h"
#include "page/page_map.h"
#include "page/span.h"

namespace tcmalloc {

struct Heap;

// An object in use.
struct LiveObject {
  uintptr_t start = 0;
  // What it may be used for: those of its size class; of a large one that is no sampled small one,
  // whole pages.
  size_t bytes = 0;
  // Its number.
  size_t number = 0;
};

class ObjectIndex {
 public:
  explicit ObjectIndex(CheckMemory& memory) : memory_(memory) {}
  ObjectIndex(const ObjectIndex&) = delete;
  ObjectIndex& operator=(const ObjectIndex&) = delete;

  // False when the system has no memory for it. Once. Requires: the calling thread holds the heap,
  // and other threads stand still or do not use it.
  [[nodiscard]] bool Build(Heap& heap);

  // No thread was stopped while it moved several objects in its bins, or the pages of an object.
  bool settled() const { return settled_; }

  size_t num_objects() const { return num_objects_; }
  size_t object_bytes() const { return object_bytes_; }
  // All numbers are below this.
  size_t num_numbers() const { return num_numbers_; }

  // The object in use that `address` lies in, anywhere; false when there is none.
  bool Find(uintptr_t address, LiveObject* object) const;
  // The object with this number. Requires: it is one in use.
  LiveObject ObjectWithNumber(size_t number) const;
  // A sample of the program's allocations, null for most objects (see profiler/sampler.h).
  const void* SampleOf(const LiveObject& object) const;
  bool IsInUse(size_t number) const { return TestBit(in_use_, number); }

  // Calls f(const LiveObject&) for every object in use, in the order of their addresses.
  template <typename F>
  void ForEach(F f) const {
    ForEachIn(in_use_, f);
  }
  // The same for those whose bits are set in `bits`, of num_numbers() bits.
  template <typename F>
  void ForEachIn(const uint64_t* bits, F f) const;

  // When the span of the object was handed out (Span::in_use). Requires: the moment of Build
  // is not over yet.
  int64_t HandedOutMs(const LiveObject& object) const {
    return RecordWithNumber(object.number).span->in_use.handed_out_ms;
  }
  // Calls f(object, sample) for every object that is a sample, in the order of their addresses. The
  // same is required.
  template <typename F>
  void ForEachSampled(F f) const {
    for (size_t r = 0; r < num_records_; ++r) {
      const SpanRecord& record = records_[r];
      if (record.size_class != SizeClass::kNone || record.span->sample == nullptr) continue;
      f(ObjectIn(record, record.first_number), static_cast<const void*>(record.span->sample));
    }
  }

  // Calls f(address) for every object that was in flight in some thread's bins.
  template <typename F>
  void ForEachInFlight(F f) const {
    for (size_t i = 0; i < num_in_flight_; ++i) f(in_flight_[i]);
  }

  // --- For Marker --------------------------------------------------------------------------------

  // What a page's entry tells: of a small span, the class, which page of the span it is, and the
  // number of the span's first object; of a large one, where its record is.
  static constexpr uint64_t kNoEntry = 0;
  static constexpr uint64_t kLargeEntry = 0xff;
  static constexpr SizeClass ClassOfEntry(uint64_t entry) {
    return static_cast<SizeClass>(entry & 0xff);
  }
  static constexpr int kPageInSpanShift = 8;
  static constexpr int kPayloadShift = 24;
  static constexpr size_t PageInSpan(uint64_t entry) {
    return (entry >> kPageInSpanShift) & 0xffff;
  }
  static constexpr size_t PayloadOf(uint64_t entry) {
    return static_cast<size_t>(entry >> kPayloadShift);
  }
  static constexpr bool IsLarge(uint64_t entry) { return (entry & 0xff) == kLargeEntry; }
  // Which object of a small span an address is in, and how far behind its start.
  struct Place {
    size_t index;
    size_t offset;
  };
  TC_FAST_PATH static Place PlaceIn(uint64_t entry, uintptr_t address) {
    const SizeClass c = ClassOfEntry(entry);
    const size_t in_span = PageInSpan(entry) * kPageSize + (address & (kPageSize - 1));
    const size_t index = kSizeClasses.ObjectIndex(c, in_span);
    return {index, in_span - index * kSizeClasses.size(c)};
  }

  struct SpanRecord {
    const Span* span;
    uintptr_t start;
    // Of an object.
    size_t object_bytes;
    size_t first_number;
    uint32_t num_objects;
    SizeClass size_class;  // kNone: one large object
    // What is behind pages that were never touched reads as zeroes.
    bool zero_filled;
  };

  // Every object lies in [lowest, lowest + extent).
  uintptr_t lowest() const { return lowest_; }
  uintptr_t extent() const { return extent_; }
  // The entry of the page of an address in that range.
  TC_FAST_PATH uint64_t EntryOf(uintptr_t address) const {
    const uint64_t* const leaf = root_[address >> (kPageShift + PageMap::kLeafBits)];
    if (leaf == nullptr) return kNoEntry;
    return leaf[(address >> kPageShift) & (PageMap::kLeafPages - 1)];
  }
  const SpanRecord& RecordOf(uint64_t large_entry) const {
    return records_[PayloadOf(large_entry)];
  }
  // The record of the span that the object with this number lies in.
  const SpanRecord& RecordWithNumber(size_t number) const;
  size_t objects_per_span(SizeClass c) const { return objects_per_span_[Index(c)]; }
  const uint64_t* in_use() const { return in_use_; }
  // The large object whose record `span` is; null when there is none.
  const SpanRecord* LargeBySpan(uintptr_t span) const;

 private:
  static constexpr size_t kSpansAtOnce = 64;

  // Calls f(span, whether it is one large object) for every span that has objects, in the order of
  // their addresses, until f returns false; returns what the last call did.
  template <typename F>
  static bool ForEachSpan(Heap& heap, F f);
  // Those of page after page differ by `step`.
  [[nodiscard]] bool SetEntries(PageId first, Length n, uint64_t entry, uint64_t step);
  // From `*numbers` on, which they raise, and the first by as much as it takes to begin a word.
  [[nodiscard]] bool AddSmall(const Span* span, size_t* numbers);
  [[nodiscard]] bool AddLarge(const Span* span, size_t* numbers);
  // It is not in use, though its bit in the span is clear.
  void RemoveFree(uintptr_t object);
  void RemoveClaimed(Heap& heap);
  [[nodiscard]] bool RemoveCached(Heap& heap);
  [[nodiscard]] bool AddInFlight(uintptr_t object);
  void Count();
  LiveObject ObjectIn(const SpanRecord& record, size_t number) const {
    return {record.start + (number - record.first_number) * record.object_bytes,
            record.object_bytes, number};
  }

  // Constant after Build.
  CheckMemory& memory_;
  // As in a PageMap; null where there is no object.
  uint64_t** root_ = nullptr;
  uintptr_t lowest_ = 0;
  uintptr_t extent_ = 0;
  SpanRecord* records_ = nullptr;
  size_t num_records_ = 0;
  // The large ones among the records, in the order of the addresses of their Spans.
  uint32_t* large_by_span_ = nullptr;
  size_t num_large_ = 0;
  uint64_t* in_use_ = nullptr;
  size_t num_numbers_ = 0;
  size_t num_objects_ = 0;
  size_t object_bytes_ = 0;
  std::array<uint32_t, kNumSizeClasses> objects_per_span_ = {};
  uintptr_t* in_flight_ = nullptr;
  size_t num_in_flight_ = 0;
  size_t in_flight_capacity_ = 0;
  bool settled_ = true;
};

template <typename F>
void ObjectIndex::ForEachIn(const uint64_t* bits, F f) const {
  for (size_t r = 0; r < num_records_; ++r) {
    const SpanRecord& record = records_[r];
    const size_t end = record.first_number + record.num_objects;
    for (size_t number = record.first_number;; ++number) {
      number = FindSetBit(bits, number, end);
      if (number == end) break;
      f(ObjectIn(record, number));
    }
  }
}

}  // namespace tcmalloc
