// SPDX-License-Identifier: BSD-3-Clause
// MarkerOf: finds which objects of an ObjectIndexOf are reachable from the roots. It is
// conservative: every aligned word whose value lies in an object in use counts as a pointer to that
// object. The leak checker marks its own process with it, and the tcmalloc command the copy of
// another one.
//
// The marker scans
//   - ranges of memory that are roots, from the start;
//   - conditional ranges, as a whole, once a scanned word points into them;
//   - objects, once a scanned word points to their first max_pointer_offset + 1 bytes.
//
// Memory is the type by which it reads (formats/marker/searched_memory.h).
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
// marker_scan.h has the functions that scan: a file that makes the code of a MarkerOf includes it.
//
// Thread safety: none. The threads whose memory is scanned are stopped. It takes no lock and
// touches no state of the heap; Memory may make system calls for long ranges. Cost: see
// bench/memory/leak_check.cc.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/address_range.h"
#include "base/bitmap.h"
#include "base/compiler.h"
#include "base/tuned.h"
#include "base/units.h"
#include "formats/marker/mark_work.h"
#include "formats/marker/object_index.h"
#include "formats/marker/searched_memory.h"

namespace tcmalloc {

// Pieces of roots shorter than this are read without checking whether their pages are backed:
// reading one backs a few pages at most.
inline constexpr size_t kProbedRootBytes = 256_KiB;
// A leak check notes objects in a bitmap while its queue is full, and searches the whole bitmap
// once it has noted at least one object for this many words of the bitmap. Skipping a word takes a
// fraction of a nanosecond. Not measured.
inline constexpr size_t kWordsPerSweptObject = Tuned(16, 1, 1000);
// While fewer objects than this wait to be searched, a leak check prefetches an object when it sees
// a pointer to it. The CPU caches have room for about this many. A list in random order took 218 ns
// of CPU time per object, 372 ns without, while the program's own walk along the list took 250 ns
// (64-byte objects, Xeon at 2.8 GHz).
inline constexpr size_t kCachedObjects = Tuned(512, 64, 4096);
// How many words a sweep looks up together, so that the cache misses of one overlap with work on
// the others.
inline constexpr size_t kWaitingWords = 32;
static_assert(std::has_single_bit(kWaitingWords));
// The longest chain of arrays that is followed. If threads were not stopped, the reader may read an
// endless chain.
inline constexpr size_t kMaxChain = 4096;
// An upper bound for the innermost frames of a stack that may belong to the allocator.
inline constexpr size_t kAllocatorStackBytes = 2048;

template <typename Geometry, typename Memory>
class MarkerOf {
 public:
  using Word = typename Memory::Word;
  using Index = ObjectIndexOf<Geometry>;

  struct Options {
    // A pointer into an object counts up to this many bytes after its start; with kAnyOffset,
    // everywhere.
    size_t max_pointer_offset = 1024;
    // The marker reads the words at multiples of this. Requires: a power of two, at most the size
    // of a word.
    size_t pointer_source_alignment = sizeof(Word);
    // The capacity of the ring. Requires: a power of two.
    size_t ring_objects = size_t{1} << 15;
  };
  static constexpr size_t kAnyOffset = SIZE_MAX;

  using Pages = MarkRange::Pages;

  // The index and `scratch`, which is for the marker's own tables, outlive this. `arguments` make
  // its Memory.
  template <typename... Arguments>
  MarkerOf(const Index& index, ScratchMemory& scratch, const Options& options,
           Arguments&&... arguments)
      : index_(index),
        scratch_(scratch),
        options_(options),
        heap_(index.bounds()),
        memory_(static_cast<Arguments&&>(arguments)...),
        far_{.max_offset = options.max_pointer_offset},
        conditional_(scratch) {}
  MarkerOf(const MarkerOf&) = delete;
  MarkerOf& operator=(const MarkerOf&) = delete;

  // Called before all other functions. False when the OS has no memory.
  [[nodiscard]] bool Prepare();

  // Names the parts of the heap's memory that cannot be read: sorted, not overlapping. The array
  // outlives the marker. Called before the first Run. Objects in these parts are scanned as far as
  // they are readable.
  void SetUnreadable(const AddressRange* ranges, size_t n) {
    unreadable_ = {ranges, n, n > 0 ? ranges[n - 1].end : 0};
  }

  // The next Run scans what these add. They return false when the system has no memory. Requires of
  // ranges: readable; start <= end.
  [[nodiscard]] bool AddRange(uintptr_t start, uintptr_t end, Pages pages = Pages::kTouched) {
    return ranges_.Push(scratch_, {start, end, MarkRange::Kind::kPlain, pages});
  }
  // Adds a thread's stack, from its stack pointer on, or its registers. The scan also finds objects
  // that functions of the allocator have in flight there (see ObjectIndex).
  [[nodiscard]] bool AddStack(uintptr_t start, uintptr_t end) {
    return ranges_.Push(scratch_, {start, end, MarkRange::Kind::kStack, Pages::kTouched});
  }
  // Called before the first Run. Conditional ranges are disjoint from each other. Where one
  // overlaps a root, it may be scanned twice.
  [[nodiscard]] bool AddConditional(uintptr_t start, uintptr_t end, Pages pages = Pages::kTouched) {
    return conditional_.Add({start, end, MarkRange::Kind::kPlain, pages});
  }
  // Adds a word that counts as if it were in a root.
  [[nodiscard]] bool AddPointer(uintptr_t word) { return pointers_.Push(scratch_, word); }

  // Marks the objects that are reachable from the memory that was added since the last call. False
  // when the system has no memory; then the marks are not complete.
  [[nodiscard]] bool Run();

  bool IsMarked(size_t number) const {
    return index_.IsInUse(number) && !TestBit(bitmaps_.unmarked, number);
  }
  size_t num_unmarked() const;
  // Calls f(const LiveObject&) for every object in use that no Run has reached, in address order.
  template <typename F>
  void ForEachUnmarked(F f) const {
    index_.ForEachIn(bitmaps_.unmarked, f);
  }

  // Finds the unmarked objects that would be marked if pointers counted everywhere in an object.
  // Called at most once, after the last Run and before FindIndirect; false when the system has no
  // memory.
  [[nodiscard]] bool FindReachedFar();
  // Requires: FindReachedFar has succeeded; the object is unmarked.
  bool IsReachedFar(size_t number) const { return !TestBit(far_.unreached, number); }

  // Separates leaked objects that are reachable from another leaked object (indirect) from others.
  // Afterwards each unmarked object is reachable from one that is not indirect. In a leaked cycle
  // to which no object outside of it points, exactly one object is not indirect. Called once, after
  // the last Run; false when the system has no memory.
  [[nodiscard]] bool FindIndirect();
  // Requires: FindIndirect has succeeded; the object is unmarked.
  bool IsIndirect(size_t number) const { return !TestBit(bitmaps_.direct, number); }

  // Counts of the scan so far.
  struct Counts {
    size_t objects = 0;
    size_t object_bytes = 0;
    size_t range_bytes = 0;
    // Words that were read, each time that they were.
    size_t words = 0;
    // Objects that were noted because the ring did not accept them.
    size_t overflows = 0;
    // Bytes that were not scanned because they could not be read.
    size_t unread_bytes = 0;
  };
  const Counts& counts() const { return counts_; }

 protected:
  Memory& memory() { return memory_; }

 private:
  struct Unreadable {
    const AddressRange* ranges = nullptr;
    size_t n = 0;
    // All addresses from here on are readable.
    uintptr_t end = 0;
  };
  // An object that a word points to.
  struct Target {
    uintptr_t start;
    size_t number;
    uint64_t entry;
  };
  // Words in the range of the heap's objects, while a sweep runs. They are looked up together, so
  // that the memory for the lookup of one is fetched while others are processed.
  struct Batch {
    uintptr_t words[kWaitingWords];
    size_t n = 0;
  };

  // Finding objects.

  // Takes a word that may be an address.
  TC_FAST_PATH void Consider(uintptr_t word);
  // Requires: the word is in the range of the heap's objects. False when it is in none of their
  // pages.
  TC_FAST_PATH bool ConsiderInHeap(uintptr_t word);
  // The same functions, for files other than marker_scan.h.
  TC_OUT_OF_LINE void ConsiderWord(uintptr_t word);
  TC_OUT_OF_LINE void ConsiderWordInHeap(uintptr_t word);
  TC_OUT_OF_LINE void ConsiderConditional(uintptr_t word);
  // Finds the object that a word in the range of the heap's objects points to. False when there is
  // none; then `*in_pages` is true if the word is at least in a page of objects.
  TC_FAST_PATH bool FindTarget(uintptr_t word, Target* target, bool* in_pages) const;
  // Notes that a pointer into the object does not count. Returns false.
  bool NoteFar(size_t number) const;
  // Adds the word to the batch.
  TC_FAST_PATH void ConsiderLater(uintptr_t word);
  void ConsiderBatch();
  // Notes an object that the ring does not accept.
  TC_OUT_OF_LINE void Note(size_t number);
  MarkItem ItemWithNumber(size_t number);

  // Scanning.

  void ScanWords(uintptr_t start, uintptr_t end);
  // ScanWords by Memory::Copy.
  void ScanCopied(uintptr_t start, uintptr_t end);
  // Scans the readable parts.
  void ScanReadable(uintptr_t start, uintptr_t end, Pages pages);
  void ScanLong(uintptr_t start, uintptr_t end, Pages pages);
  void ScanRange(const MarkRange& range);
  void ScanObject(MarkItem item);

  // Scanning stacks.

  void ScanStack(uintptr_t start, uintptr_t end);
  // Scans the record that begins with the mark at `at` on a stack that ends at `end`.
  void ScanMark(uintptr_t at, uintptr_t end);
  void ScanClaimed(const char* record);
  // Scans a chain of arrays that were detached from a cache.
  void ScanArrays(uintptr_t first);

  // Scans all objects that were found, until none is left.

  void Drain();
  // Scans the conditional ranges that were reached, and all objects that they lead to.
  void DrainReached();
  void DrainRing();
  // Moves noted objects to the ring, which is empty.
  void TakeNoted();
  // Scans the noted objects in address order, once, and notes the objects that they point to.
  void SweepNoted();

  // Pointers that do not count, since they point too far into an object.
  struct FarPointers {
    // options_.max_pointer_offset, except while FindReachedFar searches.
    size_t max_offset;
    // Bitmaps of objects: those into which such a word points, and the unmarked ones that
    // FindReachedFar did not find.
    uint64_t* pointed_to = nullptr;
    uint64_t* unreached = nullptr;
  };

  // Constant after construction and Prepare.
  const Index& index_;
  ScratchMemory& scratch_;
  const Options options_;
  const typename Index::Bounds heap_;
  Memory memory_;
  // The number of noted objects from which on the marker sweeps.
  size_t sweep_objects_ = 0;
  // Constant while a Run scans.
  Unreadable unreadable_;

  // Bitmaps of objects, by number.
  struct Bitmaps {
    // Objects in use that were not reached.
    uint64_t* unmarked = nullptr;
    // Objects that the present search has not found yet: `unmarked`, or a copy for FindReachedFar
    // or FindIndirect.
    uint64_t* to_find = nullptr;
    // Objects that are unmarked and not indirect.
    uint64_t* direct = nullptr;
  };
  Bitmaps bitmaps_;
  FarPointers far_;

  // Objects that were found and not scanned yet.
  MarkRing ring_;
  NotedObjects noted_;
  bool sweeping_ = false;
  Batch batch_;
  // The record of the last number that ItemWithNumber converted; null at first.
  const typename Index::SpanRecord* last_record_ = nullptr;

  ScratchArray<MarkRange> ranges_;
  ConditionalRanges conditional_;
  ScratchArray<uintptr_t> pointers_;
  Counts counts_;

  // A buffer for ScanCopied: a page, and room for a word that begins at its end.
  static constexpr uintptr_t kCopiedBytes = 4096;
  alignas(uintptr_t) char copied_[kCopiedBytes + sizeof(uintptr_t)];
  // The largest record of objects in flight.
  static constexpr size_t kMaxRecordBytes = 2048;
};

// Searches among leaked objects, with the scanner of MarkerOf. FindReachedFar finds those that are
// reachable if pointers count everywhere in an object. FindIndirect finds those that are reachable
// from other leaked objects.
//
// Thread safety: none, as all of MarkerOf. Cost: FindReachedFar scans each leaked object at most
// once, and conditional ranges that were not reached before; FindIndirect scans each leaked object
// at most twice. A bitmap of all objects for the one, two for the other.
template <typename Geometry, typename Memory>
bool MarkerOf<Geometry, Memory>::FindReachedFar() {
  const size_t words = WordsForBits(index_.num_numbers());
  far_.unreached = scratch_.AllocateArray<uint64_t>(words);
  if (far_.unreached == nullptr) return false;
  std::copy_n(bitmaps_.unmarked, words, far_.unreached);
  const Counts counts = counts_;
  bitmaps_.to_find = far_.unreached;
  far_.max_offset = kAnyOffset;
  for (size_t w = 0; w < words; ++w) {
    while (const uint64_t rest = far_.pointed_to[w] & far_.unreached[w]) {
      const size_t number = w * kBitsPerWord + static_cast<size_t>(std::countr_zero(rest));
      ClearBit(far_.unreached, number);
      ring_.Push(ItemWithNumber(number));
      Drain();
    }
  }
  DrainReached();
  far_.max_offset = options_.max_pointer_offset;
  bitmaps_.to_find = bitmaps_.unmarked;
  counts_ = counts;
  return !conditional_.lacked_memory();
}

template <typename Geometry, typename Memory>
bool MarkerOf<Geometry, Memory>::FindIndirect() {
  const size_t numbers = index_.num_numbers();
  const size_t words = WordsForBits(numbers);
  bitmaps_.direct = scratch_.AllocateArray<uint64_t>(words);
  uint64_t* const not_found = scratch_.AllocateArray<uint64_t>(words);
  if (bitmaps_.direct == nullptr || not_found == nullptr) return false;
  const Counts counts = counts_;
  conditional_.Suspend();
  bitmaps_.to_find = not_found;
  const auto find_from = [&](size_t number) {
    ClearBit(not_found, number);
    ring_.Push(ItemWithNumber(number));
    Drain();
  };
  // Pass 1, in ascending order, chooses each object that is not reachable from one chosen earlier.
  // Then all objects are reachable from the chosen ones. Pass 2, in descending order, keeps the
  // chosen objects that are not reachable from one kept earlier. Then all objects are still
  // reachable from the kept ones, and no kept object is reachable from another.
  std::copy_n(bitmaps_.unmarked, words, not_found);
  for (size_t number = 0;; ++number) {
    number = FindSetBit(not_found, number, numbers);
    if (number == numbers) break;
    SetBit(bitmaps_.direct, number);
    find_from(number);
  }
  std::copy_n(bitmaps_.unmarked, words, not_found);
  for (size_t w = words; w-- > 0;) {
    for (uint64_t rest = bitmaps_.direct[w]; rest != 0;) {
      const size_t bit = kBitsPerWord - 1 - static_cast<size_t>(std::countl_zero(rest));
      rest ^= uint64_t{1} << bit;
      const size_t number = w * kBitsPerWord + bit;
      if (TestBit(not_found, number)) {
        find_from(number);
      } else {
        ClearBit(bitmaps_.direct, number);
      }
    }
  }
  conditional_.Resume();
  counts_ = counts;
  bitmaps_.to_find = bitmaps_.unmarked;
  return true;
}

}  // namespace tcmalloc
