// SPDX-License-Identifier: BSD-3-Clause
// ConditionalRanges: ranges of memory that become roots as soon as reachable memory points into
// them. The marker takes each range that has been reached from it, once.
//
// It never reads the ranges. Thread safety: none. Cost: two comparisons for most words, a binary
// search for a word between the first and the last range.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "formats/marker/scratch_array.h"
#include "formats/marker/scratch_memory.h"

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

}  // namespace tcmalloc
