// SPDX-License-Identifier: BSD-3-Clause
// Marker: which objects of an ObjectIndex can be reached from the roots, seen conservatively: every
// aligned word that, taken for an address, lies in an object in use, is a pointer to it.
//
// What is scanned: ranges of memory that are roots, from the start; conditional ranges, whole, once
// something that is scanned points into them; objects, once something that is scanned points to
// their first max_pointer_offset + 1 bytes.
//
// What is scanned is read by plain loads, so it must be readable, except for parts of objects that
// SetUnreadable names. With Options::reader nothing has to be: what cannot be read is skipped, page
// by page, and counted. That takes some 20 ns more per object on x86, where a reader is guarded.
// Of long ranges and objects only pages are read that have something behind them, in memory or
// swapped out: nothing becomes resident that was never touched, unless the system does not tell.
//
// Order. Objects that were found wait in a ring, first come, first served, and their memory is
// fetched before their turn comes. The ring is small, so that it stays in the processor's caches.
// When it is full, objects are noted in a bitmap instead: nothing is ever lost, and there is no
// recursion. Where so many are noted that some of them are likely to be neighbours, whatever is
// found is noted, and the bitmap is swept in the order of addresses, again and again, until few are
// left: with objects at random places, most of the time is spent on translating their addresses and
// waiting for their memory. A binary tree of 1 GiB in objects of 64 bytes took 1.8 s with last
// come, first served, where few ever wait, and takes 0.9 s (bench/memory/leak_check.cc, Xeon at 2.8
// GHz).
//
// Thread safety: none. The threads whose memory is scanned stand still. No lock, nothing of the
// heap; system calls only for long ranges. Cost: see bench/memory/leak_check.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/compiler.h"
#include "base/tuning.h"
#include "leak/check_memory.h"
#include "leak/object_index.h"
#include "os/backed_pages.h"
#include "os/memory_reader.h"

namespace tcmalloc {

struct ObjectWordsInFlight;

class Marker {
 public:
  struct Options {
    // How far behind its start a pointer into an object may point; kAnyOffset: anywhere in it.
    size_t max_pointer_offset = 1024;
    // Words are looked at that lie at multiples of this. Requires: a power of two, at most the size
    // of a word.
    size_t pointer_source_alignment = sizeof(uintptr_t);
    // Objects on the list at most. Requires: a power of two.
    size_t list_objects = size_t{1} << 15;
    // What reads the program's memory; null: plain loads.
    const MemoryReader* reader = nullptr;
  };
  static constexpr size_t kAnyOffset = SIZE_MAX;

  // Whether pages without anything behind them are skipped: not where they may have contents
  // nevertheless, as memory that is shared or of a file that others write to.
  enum class Pages : uint8_t { kTouched, kAll };

  Marker(const ObjectIndex& index, CheckMemory& memory, const Options& options);
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;

  // False when the system has no memory. Before anything else.
  [[nodiscard]] bool Prepare();

  // Parts of the heap's memory that cannot be read: sorted, not overlapping. They outlive this.
  // Before the first Run. Objects that lie there are searched as far as they can be read.
  void SetUnreadable(const AddressRange* ranges, size_t n) {
    unreadable_ = ranges;
    num_unreadable_ = n;
    unreadable_end_ = n > 0 ? ranges[n - 1].end : 0;
  }

  // All take effect with the next Run, and return false when the system has no memory. Requires of
  // ranges: readable; start <= end.
  [[nodiscard]] bool AddRange(uintptr_t start, uintptr_t end, Pages pages = Pages::kTouched) {
    return ranges_.Push(memory_, {start, end, Kind::kPlain, pages});
  }
  // A thread's stack, from its stack pointer on, or its registers. Also finds objects that the
  // allocator's own functions there have in flight (see ObjectIndex).
  [[nodiscard]] bool AddStack(uintptr_t start, uintptr_t end) {
    return ranges_.Push(memory_, {start, end, Kind::kStack, Pages::kTouched});
  }
  // Disjoint from each other. Before the first Run. A part of one that is a root as well may be
  // scanned twice.
  [[nodiscard]] bool AddConditional(uintptr_t start, uintptr_t end, Pages pages = Pages::kTouched) {
    return conditional_.Push(memory_, {start, end, Kind::kPlain, pages});
  }
  // As a word of a root.
  [[nodiscard]] bool AddPointer(uintptr_t word) { return pointers_.Push(memory_, word); }

  // Marks what can be reached from all that was added since the last call. False when the system
  // has no memory; then the marks are not complete.
  [[nodiscard]] bool Run();

  bool IsMarked(size_t number) const {
    return index_.IsInUse(number) && !TestBit(unmarked_, number);
  }
  size_t num_unmarked() const;
  // Calls f(const LiveObject&) for every object in use that no Run has reached, in the order of
  // their addresses.
  template <typename F>
  void ForEachUnmarked(F f) const {
    index_.ForEachIn(unmarked_, f);
  }

  // Tells lost objects that some other lost one leads to from those that lead to them: afterwards
  // each unmarked object can be reached from one that is not indirect, and of a lost cycle that
  // nothing leads to, one object is not. Once, after the last Run; false when there is no memory.
  [[nodiscard]] bool FindIndirect();
  // Requires: FindIndirect has succeeded; the object is unmarked.
  bool IsIndirect(size_t number) const { return !TestBit(direct_, number); }

  // What was scanned so far.
  struct Counts {
    size_t objects = 0;
    size_t object_bytes = 0;
    size_t range_bytes = 0;
    // Of the objects, those that the list was too full for.
    size_t overflows = 0;
    // Not searched, because it could not be read.
    size_t unread_bytes = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  class Queue;
  enum class Kind : uint8_t { kPlain, kStack };
  struct Range {
    uintptr_t start;
    uintptr_t end;
    Kind kind;
    Pages pages;
  };

  // An array that grows; what it had before is not reused.
  template <typename T>
  class Array {
   public:
    bool Push(CheckMemory& memory, const T& element) {
      if (size_ == capacity_ && !Grow(memory)) return false;
      elements_[size_++] = element;
      return true;
    }
    size_t size() const { return size_; }
    void Clear() { size_ = 0; }
    T& operator[](size_t i) { return elements_[i]; }
    T* begin() { return elements_; }
    T* end() { return elements_ + size_; }

   private:
    bool Grow(CheckMemory& memory) {
      const size_t capacity = capacity_ == 0 ? 64 : 2 * capacity_;
      T* const larger = memory.AllocateArray<T>(capacity);
      if (larger == nullptr) return false;
      for (size_t i = 0; i < size_; ++i) larger[i] = elements_[i];
      elements_ = larger;
      capacity_ = capacity;
      return true;
    }

    T* elements_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
  };

  // An object on the list: where it starts, and, in the bits above addresses, its class.
  using Item = uint64_t;
  static constexpr int kClassShift = 48;
  static Item ItemOf(uintptr_t start, uint64_t entry) {
    return start | (entry & 0xff) << kClassShift;
  }
  static uintptr_t StartOf(Item item) {
    return static_cast<uintptr_t>(item & ((uint64_t{1} << kClassShift) - 1));
  }

  [[nodiscard]] bool SortConditional();
  // A word that may be an address.
  TC_FAST_PATH void Consider(uintptr_t word);
  // Requires: it is in the range of the heap's objects. False when it is in no page of theirs.
  TC_FAST_PATH bool ConsiderInHeap(uintptr_t word);
  TC_OUT_OF_LINE void ConsiderConditional(uintptr_t word);
  // The object that a word of a range of the heap's leads to; false when it leads to none, and then
  // `*in_pages` tells whether it is in pages of objects at all.
  struct Target {
    uintptr_t start;
    size_t number;
    uint64_t entry;
  };
  TC_FAST_PATH bool FindTarget(uintptr_t word, Target* target, bool* in_pages) const;
  // While there is enough to sweep: words in the range of the heap's objects wait until there are
  // some, so that what has to be looked up for one is fetched while others are worked on.
  TC_FAST_PATH void ConsiderLater(uintptr_t word);
  void ConsiderWaiting();
  // The object was found, and the list is full.
  TC_OUT_OF_LINE void Note(size_t number);
  Item ItemWithNumber(size_t number);
  // Requires: the list is not full.
  void Push(Item item) { list_[(list_first_ + list_size_++) & (options_.list_objects - 1)] = item; }
  // A word of the program's memory; 0 where it cannot be read.
  uintptr_t Load(uintptr_t address) const;
  void ScanWords(uintptr_t start, uintptr_t end);
  // The same by the reader.
  void ScanCopied(uintptr_t start, uintptr_t end);
  // What of an object is not unreadable.
  void ScanReadable(uintptr_t start, uintptr_t end, Pages pages);
  void ScanLong(uintptr_t start, uintptr_t end, Pages pages);
  void ScanStack(uintptr_t start, uintptr_t end);
  // The record that begins with the mark at `at` on a stack that ends at `end`.
  void ScanMark(uintptr_t at, uintptr_t end);
  void ScanClaimed(const ObjectWordsInFlight& claimed);
  // A chain of arrays that were detached from a cache (cache/bin_array.h).
  void ScanArrays(uintptr_t first);
  void ScanRange(const Range& range);
  void ScanObject(Item item);
  // Scans what is on the list, and what comes to be, until nothing is left.
  void Drain();
  void DrainList();
  // Puts noted objects on the list, which is empty.
  void TakeNoted();
  // Scans what is noted, in the order of addresses, and notes what it leads to; once.
  void SweepNoted();

  // Constant after construction and Prepare.
  const ObjectIndex& index_;
  CheckMemory& memory_;
  const Options options_;
  uintptr_t heap_lowest_;
  uintptr_t heap_extent_;
  BackedPages backed_;
  // Constant while a Run scans.
  const AddressRange* unreadable_ = nullptr;
  size_t num_unreadable_ = 0;
  // No address from here on is unreadable.
  uintptr_t unreadable_end_ = 0;

  // In use, and not found yet.
  uint64_t* unmarked_ = nullptr;
  // Where what is looked for has its bit: there, or in direct_.
  uint64_t* to_find_ = nullptr;
  // Found, and neither scanned nor on the list; in words [noted_begin_, noted_end_).
  uint64_t* noted_ = nullptr;
  size_t noted_begin_ = 0;
  size_t noted_end_ = 0;
  size_t num_noted_ = 0;
  // So many noted ones are worth a sweep.
  size_t sweep_objects_ = 0;
  // Of the number that was last looked for; null at first.
  const ObjectIndex::SpanRecord* last_record_ = nullptr;
  // Unmarked, and not indirect.
  uint64_t* direct_ = nullptr;

  // A ring.
  Item* list_ = nullptr;
  size_t list_first_ = 0;
  size_t list_size_ = 0;
  // What is found goes on the list as long as it has fewer. 0 while there is enough to sweep.
  size_t list_limit_;
  bool sweeping_ = false;
  uintptr_t waiting_[kTuning.leak_check.waiting_words];
  size_t num_waiting_ = 0;

  Array<Range> ranges_;
  Array<Range> conditional_;
  // The conditional ranges that were found to be pointed into, as numbers; those behind
  // reached_scanned_ have not been scanned.
  Array<uint32_t> reached_;
  size_t reached_scanned_ = 0;
  uint64_t* conditional_reached_ = nullptr;
  uintptr_t conditional_lowest_ = 0;
  uintptr_t conditional_extent_ = 0;
  Array<uintptr_t> pointers_;
  bool out_of_memory_ = false;
  Counts counts_;

  // A page at a time, and a word that begins in it.
  static constexpr uintptr_t kCopiedBytes = 4096;
  alignas(uintptr_t) char copied_[kCopiedBytes + sizeof(uintptr_t)];
};

}  // namespace tcmalloc
