// SPDX-License-Identifier: BSD-3-Clause
// Marker: finds which objects of an ObjectIndex are reachable from the roots. It is conservative:
// every aligned word whose value lies in an object in use counts as a pointer to that object.
//
// The marker scans
//   - ranges of memory that are roots, from the start;
//   - conditional ranges, whole, once something scanned points into them;
//   - objects, once something scanned points to their first max_pointer_offset + 1 bytes.
//
// It reads by plain loads, so all of that must be readable, except for the parts of objects that
// SetUnreadable names. With Options::reader nothing has to be: the marker skips pages that cannot
// be read and counts them. That takes some 20 ns more per object on x86, where a reader is guarded.
// Of long ranges and objects it reads only pages that are backed, by memory or swap: it makes no
// page resident that was never touched, unless the system does not tell which pages those are.
//
// Order. Objects that were found wait in a ring, first in, first out, and are prefetched before
// their turn. The ring is small, so that it stays in the processor's caches. When it is full,
// objects are noted in a bitmap instead: no object is dropped, and nothing recurses. Once the
// bitmap is dense enough that noted objects are likely to be adjacent, every found object is noted,
// and the bitmap is swept in address order, repeatedly, until few objects are left. With objects at
// random addresses, most of the time goes to address translation and cache misses. A binary tree
// of 1 GiB in objects of 64 bytes took 1.8 s with a stack, where few objects ever wait, and takes
// 0.9 s with the ring (bench/memory/leak_check.cc, Xeon at 2.8 GHz).
//
// Files: marker.cc finds and scans objects; marker_stacks.cc scans stacks; marker_indirect.cc
// separates directly from indirectly leaked objects; mark_work.h has the structures for objects
// that wait.
//
// Thread safety: none. The threads whose memory is scanned are stopped. It takes no lock and
// touches no state of the heap; it makes system calls for long ranges only. Cost: see
// bench/memory/leak_check.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/compiler.h"
#include "base/tuning.h"
#include "tools/leak/check_array.h"
#include "tools/leak/check_memory.h"
#include "tools/leak/conditional_ranges.h"
#include "tools/leak/mark_work.h"
#include "tools/leak/object_index.h"
#include "tools/leak/os/backed_pages.h"
#include "tools/world_stop/memory_reader.h"

namespace tcmalloc {

struct ObjectWordsInFlight;

class Marker {
 public:
  struct Options {
    // A pointer into an object counts up to this many bytes after its start; kAnyOffset: anywhere.
    size_t max_pointer_offset = 1024;
    // The marker reads the words at multiples of this. Requires: a power of two, at most the size
    // of a word.
    size_t pointer_source_alignment = sizeof(uintptr_t);
    // The capacity of the ring. Requires: a power of two.
    size_t ring_objects = size_t{1} << 15;
    // Reads the program's memory; null: plain loads.
    const MemoryReader* reader = nullptr;
  };
  static constexpr size_t kAnyOffset = SIZE_MAX;

  using Pages = MarkRange::Pages;

  Marker(const ObjectIndex& index, CheckMemory& memory, const Options& options);
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;

  // Before anything else. False when the system has no memory.
  [[nodiscard]] bool Prepare();

  // Names the parts of the heap's memory that cannot be read: sorted, not overlapping. The array
  // outlives the marker. Before the first Run. Objects there are scanned as far as they are
  // readable.
  void SetUnreadable(const AddressRange* ranges, size_t n) {
    unreadable_ = {ranges, n, n > 0 ? ranges[n - 1].end : 0};
  }

  // The next Run scans what these add. They return false when the system has no memory. Requires of
  // ranges: readable; start <= end.
  [[nodiscard]] bool AddRange(uintptr_t start, uintptr_t end, Pages pages = Pages::kTouched) {
    return ranges_.Push(memory_, {start, end, MarkRange::Kind::kPlain, pages});
  }
  // A thread's stack, from its stack pointer on, or its registers. The scan also finds objects that
  // functions of the allocator have in flight there (see ObjectIndex).
  [[nodiscard]] bool AddStack(uintptr_t start, uintptr_t end) {
    return ranges_.Push(memory_, {start, end, MarkRange::Kind::kStack, Pages::kTouched});
  }
  // Before the first Run. Conditional ranges are disjoint from each other. One that overlaps a root
  // may be scanned twice there.
  [[nodiscard]] bool AddConditional(uintptr_t start, uintptr_t end, Pages pages = Pages::kTouched) {
    return conditional_.Add({start, end, MarkRange::Kind::kPlain, pages});
  }
  // A word that counts as if it lay in a root.
  [[nodiscard]] bool AddPointer(uintptr_t word) { return pointers_.Push(memory_, word); }

  // Marks what is reachable from all that was added since the last call. False when the system has
  // no memory; then the marks are not complete.
  [[nodiscard]] bool Run();

  bool IsMarked(size_t number) const {
    return index_.IsInUse(number) && !TestBit(unmarked_, number);
  }
  size_t num_unmarked() const;
  // Calls f(const LiveObject&) for every object in use that no Run has reached, in address order.
  template <typename F>
  void ForEachUnmarked(F f) const {
    index_.ForEachIn(unmarked_, f);
  }

  // Separates leaked objects that are reachable from another leaked object (indirect) from others.
  // Afterwards each unmarked object is reachable from one that is not indirect. Of a leaked cycle
  // that nothing outside it points to, exactly one object is not indirect. Once, after the last
  // Run; false when the system has no memory.
  [[nodiscard]] bool FindIndirect();
  // Requires: FindIndirect has succeeded; the object is unmarked.
  bool IsIndirect(size_t number) const { return !TestBit(direct_, number); }

  // What was scanned so far.
  struct Counts {
    size_t objects = 0;
    size_t object_bytes = 0;
    size_t range_bytes = 0;
    // Objects that were noted because the ring did not accept them.
    size_t overflows = 0;
    // Bytes that were not scanned because they could not be read.
    size_t unread_bytes = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Unreadable {
    const AddressRange* ranges = nullptr;
    size_t n = 0;
    // No address from here on is unreadable.
    uintptr_t end = 0;
  };
  // The range of the heap's objects.
  struct HeapExtent {
    uintptr_t lowest;
    uintptr_t bytes;
    bool Contains(uintptr_t word) const { return word - lowest < bytes; }
  };
  // An object that a word points to.
  struct Target {
    uintptr_t start;
    size_t number;
    uint64_t entry;
  };
  // Words in the range of the heap's objects, while a sweep runs. They are looked up together, so
  // that what the lookup of one needs is fetched while others are worked on.
  struct Batch {
    uintptr_t words[kTuning.leak_check.waiting_words];
    size_t n = 0;
  };

  // Finding objects.

  // Takes a word that may be an address.
  TC_FAST_PATH void Consider(uintptr_t word);
  // Requires: the word is in the range of the heap's objects. False when it is in none of their
  // pages.
  TC_FAST_PATH bool ConsiderInHeap(uintptr_t word);
  // The same two for other files than marker.cc.
  TC_OUT_OF_LINE void ConsiderWord(uintptr_t word);
  TC_OUT_OF_LINE void ConsiderWordInHeap(uintptr_t word);
  TC_OUT_OF_LINE void ConsiderConditional(uintptr_t word);
  // Finds the object that a word in the range of the heap's objects points to. False when there is
  // none; then `*in_pages` tells whether the word is in a page of objects at all.
  TC_FAST_PATH bool FindTarget(uintptr_t word, Target* target, bool* in_pages) const;
  // Adds the word to the batch.
  TC_FAST_PATH void ConsiderLater(uintptr_t word);
  void ConsiderBatch();
  // An object was found that the ring does not accept.
  TC_OUT_OF_LINE void Note(size_t number);
  MarkItem ItemWithNumber(size_t number);

  // Scanning.

  // Loads a word of the program's memory; 0 where it cannot be read.
  uintptr_t Load(uintptr_t address) const;
  void ScanWords(uintptr_t start, uintptr_t end);
  // ScanWords by the reader.
  void ScanCopied(uintptr_t start, uintptr_t end);
  // Scans the readable parts.
  void ScanReadable(uintptr_t start, uintptr_t end, Pages pages);
  void ScanLong(uintptr_t start, uintptr_t end, Pages pages);
  void ScanRange(const MarkRange& range);
  void ScanObject(MarkItem item);

  // Scanning stacks: marker_stacks.cc.

  void ScanStack(uintptr_t start, uintptr_t end);
  // Scans the record that begins with the mark at `at` on a stack that ends at `end`.
  void ScanMark(uintptr_t at, uintptr_t end);
  void ScanClaimed(const ObjectWordsInFlight& claimed);
  // Scans a chain of arrays that were detached from a cache (cache/bin_array.h).
  void ScanArrays(uintptr_t first);

  // Scanning all that was found, until nothing is left.

  void Drain();
  void DrainRing();
  // Moves noted objects to the ring, which is empty.
  void TakeNoted();
  // Scans the noted objects in address order, once, and notes what they point to.
  void SweepNoted();

  // Constant after construction and Prepare.
  const ObjectIndex& index_;
  CheckMemory& memory_;
  const Options options_;
  const HeapExtent heap_;
  BackedPages backed_;
  // Sweep from this many noted objects on.
  size_t sweep_objects_ = 0;
  // Constant while a Run scans.
  Unreadable unreadable_;

  // Bitmaps of objects, by number.
  // In use, and not reached.
  uint64_t* unmarked_ = nullptr;
  // Not found yet by the search that runs: unmarked_, or a copy for FindIndirect.
  uint64_t* to_find_ = nullptr;
  // Unmarked, and not indirect.
  uint64_t* direct_ = nullptr;

  // Found, and not scanned.
  MarkRing ring_;
  NotedObjects noted_;
  bool sweeping_ = false;
  Batch batch_;
  // Of the last number that ItemWithNumber converted; null at first.
  const ObjectIndex::SpanRecord* last_record_ = nullptr;

  CheckArray<MarkRange> ranges_;
  ConditionalRanges conditional_;
  CheckArray<uintptr_t> pointers_;
  Counts counts_;

  // For ScanCopied: a page, and a word that begins in it.
  static constexpr uintptr_t kCopiedBytes = 4096;
  alignas(uintptr_t) char copied_[kCopiedBytes + sizeof(uintptr_t)];
};

}  // namespace tcmalloc
