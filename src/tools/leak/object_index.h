// SPDX-License-Identifier: BSD-3-Clause
// ObjectIndex: every object in use at one moment, found by any address inside it.
//
// Source. Nothing is recorded when a program allocates. A span of a central free list is divided
// into objects of one size. Objects are free if their bits are set, if they are in a cache (the
// bins of threads, of ended threads and of a parent's threads), or if they are claimed while their
// pages are released to the OS (HoleClaims). All others are in use. Every span of state kLarge is
// one object, sampled ones included.
//
// The moment. The heap is held (heap/heap_hold.h), so everything that a lock protects is
// consistent. The other threads are stopped, each at any instruction, or do not allocate and free.
// Outside of locks they can be in these states only:
//
//   An access section of one object (Bins::Pop and Push, see thread_slot.h). A pop takes effect
//   with the store of the top: before it the object is free and in the bin; after it, in use and in
//   a register, which is a root. A push stores the object into the slot above the top, then the
//   top: in between, the object is in use. For a thread stopped in an access section, the slot
//   above each top is in flight, whatever its registers hold. (Outside of a section, that slot
//   holds what was allocated last, which is no root.)
//
//   A section that changes several things (ThreadCache::changing): a bin's objects are being moved
//   within its array or to another one, and the top may belong to either array. All that the slots
//   of the cache hold is in flight. memmove may have objects in vector registers only, so `settled`
//   is false: the caller lets the threads run for a moment and looks again.
//
//   Objects between two structures. Those in an array on the stack (ThreadCache::Refill and
//   ReturnOldest, CentralCache::Insert) are found like any pointer on a stack. Three kinds are not
//   on the stack one by one: objects that were claimed in a span's bitmap and not yet turned into
//   addresses (CentralFreeList::Remove does that without the lock); arrays that were detached from
//   a cache (flush, the end of a thread); and a cache that passes from an ended thread to a new
//   one. For the first two, the function's frame has a mark (base/in_flight.h), by which the Marker
//   finds them; the third kind is in a list of the registry.
//
//   A large object whose pages are being moved (page/address_space_move.cc): its contents may lie
//   where no span is yet. `settled` is false then too.
//
//   A large object that was just allocated, to which only its span's record points (its allocation
//   is being sampled, or its pages are being pre-faulted): for the Marker, the address of a large
//   object's record on a stack is a pointer to the object.
//
// In flight means: in use or free, unknown which. An object in flight counts as in use and as
// reachable, so that neither it nor what it points to is reported as leaked. If the bitmap says
// that it is free, it is free. At most a batch or the contents of one cache per thread are
// affected, for one look.
//
// Freed spans. A span whose objects are all free has no home (Span::home) from the moment, under
// the lock, in which its last object was returned; a new one has none until its first objects are
// claimed. So a span on its way from or to the page heap has no objects here.
//
// Numbers. Objects are numbered in the order of their addresses, with gaps: a small span's numbers
// begin at a multiple of 64, so that its bitmap is copied word by word.
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
#include "page/page_map.h"
#include "page/span.h"
#include "tools/leak/check_memory.h"

namespace tcmalloc {

struct Heap;

// An object in use.
struct LiveObject {
  uintptr_t start = 0;
  // Usable bytes: those of its size class; whole pages for a large object, unless it is a sampled
  // small one.
  size_t bytes = 0;
  size_t number = 0;
};

class ObjectIndex {
 public:
  explicit ObjectIndex(CheckMemory& memory) : memory_(memory) {}
  ObjectIndex(const ObjectIndex&) = delete;
  ObjectIndex& operator=(const ObjectIndex&) = delete;

  // Once. False when the system has no memory. Requires: the calling thread holds the heap, and the
  // other threads are stopped or do not use it.
  [[nodiscard]] bool Build(Heap& heap);

  // No thread was stopped while it moved several objects in its bins, or the pages of an object.
  bool settled() const { return settled_; }

  size_t num_objects() const { return num_objects_; }
  size_t object_bytes() const { return object_bytes_; }
  // All numbers are below this.
  size_t num_numbers() const { return num_numbers_; }

  // Finds the object in use that contains `address`. False when there is none.
  bool Find(uintptr_t address, LiveObject* object) const;
  // Requires: the object with this number is in use.
  LiveObject ObjectWithNumber(size_t number) const;
  // Its Sample (see tools/profiler/sampler.h); null for most objects.
  const void* SampleOf(const LiveObject& object) const;
  bool IsInUse(size_t number) const { return TestBit(in_use_, number); }

  // Calls f(const LiveObject&) for every object in use, in the order of their addresses.
  template <typename F>
  void ForEach(F f) const {
    ForEachIn(in_use_, f);
  }
  // As above, for the objects whose bits are set in `bits`, of num_numbers() bits.
  template <typename F>
  void ForEachIn(const uint64_t* bits, F f) const;

  // When the object's span was handed out (Span::in_use). Requires: the heap has been held since
  // Build.
  int64_t HandedOutMs(const LiveObject& object) const {
    return RecordWithNumber(object.number).span->in_use.handed_out_ms;
  }
  // Calls f(object, sample) for every sampled object, in the order of their addresses. Requires: as
  // HandedOutMs.
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

  // The entry of a page. In a small span: the size class, the index of the page in the span, and
  // the number of the span's first object. In a large object: the index of its record.
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
  // The index of an object in a small span, and an offset in that object.
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
    size_t object_bytes;
    size_t first_number;
    uint32_t num_objects;
    SizeClass size_class;  // kNone: one large object
    // Pages that were never touched read as zeroes.
    bool zero_filled;
  };

  // Every object lies in [lowest, lowest + extent).
  uintptr_t lowest() const { return lowest_; }
  uintptr_t extent() const { return extent_; }
  // Requires: the address is in that range.
  TC_FAST_PATH uint64_t EntryOf(uintptr_t address) const {
    const uint64_t* const leaf = root_[address >> (kPageShift + PageMap::kLeafBits)];
    if (leaf == nullptr) return kNoEntry;
    return leaf[(address >> kPageShift) & (PageMap::kLeafPages - 1)];
  }
  const SpanRecord& RecordOf(uint64_t large_entry) const {
    return records_[PayloadOf(large_entry)];
  }
  // The record of the span that contains the object with this number.
  const SpanRecord& RecordWithNumber(size_t number) const;
  size_t objects_per_span(SizeClass c) const { return objects_per_span_[Index(c)]; }
  const uint64_t* in_use() const { return in_use_; }
  // The large object whose Span is at the address `span`; null when there is none.
  const SpanRecord* LargeBySpan(uintptr_t span) const;

 private:
  static constexpr size_t kSpansAtOnce = 64;

  // Calls f(span, is_large) for every span that has objects, in the order of their addresses, until
  // f returns false; then returns false.
  template <typename F>
  static bool ForEachSpan(Heap& heap, F f);
  // Sets the entries of `n` pages; each one is larger by `step` than the one before.
  [[nodiscard]] bool SetEntries(PageId first, Length n, uint64_t entry, uint64_t step);
  // Number the span's objects from `*numbers` on, and raise it. AddSmall begins at the next
  // multiple of 64.
  [[nodiscard]] bool AddSmall(const Span* span, size_t* numbers);
  [[nodiscard]] bool AddLarge(const Span* span, size_t* numbers);
  // Removes an object that is free although its bit in the span is clear.
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
  // As in a PageMap; null where there are no objects.
  uint64_t** root_ = nullptr;
  uintptr_t lowest_ = 0;
  uintptr_t extent_ = 0;
  SpanRecord* records_ = nullptr;
  size_t num_records_ = 0;
  // Indices of the records of large objects, sorted by the addresses of their Spans.
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
