// SPDX-License-Identifier: BSD-3-Clause
// The marker's work: ranges of memory that it may have to scan, and objects that it has found and
// not yet scanned.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/tuned.h"
#include "formats/marker/searched_memory.h"

namespace tcmalloc {

// Memory to scan.
struct MarkRange {
  enum class Kind : uint8_t { kPlain, kStack };
  // kTouched skips unbacked pages. Unbacked pages may have contents if memory is shared, or maps a
  // file that others write to: kAll is for such memory.
  enum class Pages : uint8_t { kTouched, kAll };

  uintptr_t start;
  uintptr_t end;
  Kind kind;
  Pages pages;
};

// ConditionalRanges: ranges of memory that become roots as soon as reachable memory points into
// them. The marker takes each range that has been reached from it, once.
//
// It never reads the ranges. Thread safety: none. Cost: two comparisons for most words, a binary
// search for a word between the first and the last range.
class ConditionalRanges {
 public:
  explicit ConditionalRanges(ScratchMemory& memory) : memory_(memory) {}
  ConditionalRanges(const ConditionalRanges&) = delete;
  ConditionalRanges& operator=(const ConditionalRanges&) = delete;

  // Called before the first Prepare. Ranges are disjoint. False when the system has no memory.
  [[nodiscard]] bool Add(const MarkRange& range) { return ranges_.Push(memory_, range); }

  // Sorts the ranges at the first call; later calls do nothing. Called before the first Reach.
  // False when the system has no memory.
  [[nodiscard]] bool Prepare() {
    if (reached_bits_ != nullptr) return true;
    reached_bits_ = memory_.AllocateArray<uint64_t>(WordsForBits(ranges_.size()));
    if (reached_bits_ == nullptr) return false;
    std::sort(ranges_.begin(), ranges_.end(),
              [](const MarkRange& a, const MarkRange& b) { return a.start < b.start; });
    if (ranges_.size() > 0) {
      lowest_ = ranges_[0].start;
      extent_ = ranges_[ranges_.size() - 1].end - lowest_;
    }
    return true;
  }

  // Whether the word may point into a range.
  bool MayContain(uintptr_t word) const { return word - lowest_ < extent_; }
  // Called when a pointer that may point into a range was found.
  void Reach(uintptr_t word) {
    const MarkRange* const after = std::upper_bound(
        ranges_.begin(), ranges_.end(), word,
        [](uintptr_t address, const MarkRange& range) { return address < range.start; });
    if (after == ranges_.begin() || word >= after[-1].end) return;
    const size_t i = static_cast<size_t>(after - 1 - ranges_.begin());
    if (TestBit(reached_bits_, i)) return;
    SetBit(reached_bits_, i);
    lacked_memory_ |= !reached_.Push(memory_, static_cast<uint32_t>(i));
  }
  // The next range that was reached; null when all of them have been taken.
  const MarkRange* TakeReached() {
    return taken_ < reached_.size() ? &ranges_[reached_[taken_++]] : nullptr;
  }
  // True if a reached range could not be recorded, so that TakeReached is incomplete.
  bool lacked_memory() const { return lacked_memory_; }

  // Makes MayContain false for all words, until Resume.
  void Suspend() { std::swap(extent_, suspended_extent_); }
  void Resume() { std::swap(extent_, suspended_extent_); }

 private:
  ScratchMemory& memory_;
  ScratchArray<MarkRange> ranges_;
  uintptr_t lowest_ = 0;
  uintptr_t extent_ = 0;
  uintptr_t suspended_extent_ = 0;
  // Indexed like ranges_.
  uint64_t* reached_bits_ = nullptr;
  ScratchArray<uint32_t> reached_;
  size_t taken_ = 0;
  bool lacked_memory_ = false;
};

// The objects that the marker has found and not yet scanned. There are three structures. MarkQueue
// has the next few objects, which are being prefetched. MarkRing has the objects after them.
// NotedObjects, a bitmap, has the objects for which the ring has no room.
//
// They know objects by address or number and never read them. Thread safety: none. Cost: a few
// instructions per object; no memory beyond what Prepare takes.

// An object to scan: its address and, in the bits above addresses, what kind of object it is.
class MarkItem {
 public:
  MarkItem() = default;
  // The lowest 8 bits of `kind` count.
  MarkItem(uintptr_t start, uint64_t kind) : bits_(start | (kind & 0xff) << kKindShift) {}
  uintptr_t start() const {
    return static_cast<uintptr_t>(bits_ & ((uint64_t{1} << kKindShift) - 1));
  }
  uint64_t kind() const { return bits_ >> kKindShift; }

 private:
  static constexpr int kKindShift = 48;
  uint64_t bits_;
};

// A first-in-first-out queue. It is small enough to stay in the processor's caches.
class MarkRing {
 public:
  // Requires of `capacity`: a power of two. False when the system has no memory.
  [[nodiscard]] bool Prepare(ScratchMemory& memory, size_t capacity) {
    items_ = memory.AllocateArray<MarkItem>(capacity);
    capacity_ = limit_ = capacity;
    return items_ != nullptr;
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  bool is_full() const { return size_ >= capacity_; }
  // Whether newly found objects belong here. A closed ring accepts none; Push still works.
  bool accepts() const { return size_ < limit_; }
  void Close() { limit_ = 0; }
  void Open() { limit_ = capacity_; }

  // Requires: not full.
  void Push(MarkItem item) { items_[(first_ + size_++) & (capacity_ - 1)] = item; }
  // Requires: not empty.
  MarkItem TakeFirst() {
    const MarkItem item = items_[first_];
    first_ = (first_ + 1) & (capacity_ - 1);
    --size_;
    return item;
  }

 private:
  MarkItem* items_ = nullptr;
  size_t capacity_ = 0;
  size_t first_ = 0;
  size_t size_ = 0;
  size_t limit_ = 0;
};

// How many objects a leak check prefetches before it searches them. Of 8, 16 and 32, 16 was best
// for trees; 32 was better only for an array of pointers (64-byte objects, Xeon at 2.8 GHz).
inline constexpr size_t kPrefetchedObjects = Tuned(16, 4, 64);
static_assert(std::has_single_bit(kPrefetchedObjects));

// The next objects to scan. Add prefetches an object, so that its memory is in the cache when its
// turn comes.
class MarkQueue {
 public:
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == kPrefetchedObjects; }
  // Requires: not full.
  void Add(MarkItem item) {
    __builtin_prefetch(reinterpret_cast<const void*>(item.start()));
    items_[(first_ + size_++) % kPrefetchedObjects] = item;
  }
  // Requires: not empty.
  MarkItem TakeFirst() {
    const MarkItem item = items_[first_];
    first_ = (first_ + 1) % kPrefetchedObjects;
    --size_;
    return item;
  }

 private:
  MarkItem items_[kPrefetchedObjects];
  size_t first_ = 0;
  size_t size_ = 0;
};

// A set of objects, by number. It has room for all objects of the heap, so nothing is ever dropped.
class NotedObjects {
 public:
  // Numbers are below `numbers`. False when the system has no memory.
  [[nodiscard]] bool Prepare(ScratchMemory& memory, size_t numbers) {
    words_ = WordsForBits(numbers);
    bits_ = memory.AllocateArray<uint64_t>(words_);
    begin_ = words_;
    return bits_ != nullptr;
  }

  size_t size() const { return size_; }
  // Requires: the number is not in the set.
  void Add(size_t number) {
    ++size_;
    const size_t word = number / kBitsPerWord;
    SetBit(bits_, number);
    begin_ = std::min(begin_, word);
    end_ = std::max(end_, word + 1);
  }
  // Fetches the memory that Add of this number writes to.
  void Prefetch(size_t number) const { __builtin_prefetch(&bits_[number / kBitsPerWord]); }

  // Removes and returns the smallest number. Requires: not empty.
  size_t TakeFirst() {
    while (bits_[begin_] == 0) ++begin_;
    const size_t number = TakeFrom(begin_);
    if (size_ == 0) {
      begin_ = words_;
      end_ = 0;
    }
    return number;
  }

  // Removes all numbers once, in ascending order, and calls f(number) for each. Numbers that f adds
  // are part of the sweep when they are not smaller than f's argument, rounded down to a word;
  // other numbers stay for the next sweep.
  template <typename F>
  void Sweep(F f) {
    size_t w = begin_;
    begin_ = words_;
    for (; w < end_; ++w) {
      while (bits_[w] != 0) f(TakeFrom(w));
    }
  }

 private:
  size_t TakeFrom(size_t w) {
    const size_t bit = static_cast<size_t>(std::countr_zero(bits_[w]));
    bits_[w] &= bits_[w] - 1;
    --size_;
    return w * kBitsPerWord + bit;
  }

  uint64_t* bits_ = nullptr;
  size_t words_ = 0;
  size_t size_ = 0;
  // Words outside [begin_, end_) are zero, except while a sweep runs.
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace tcmalloc
