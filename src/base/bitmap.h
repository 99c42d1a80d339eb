// SPDX-License-Identifier: BSD-3-Clause
// Operations on the caller's bitmap: an array of 64-bit words, in which bit i of word w stands for
// item 64w + i. Not thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

inline constexpr size_t kBitsPerWord = 64;

constexpr size_t WordsForBits(size_t bits) { return (bits + kBitsPerWord - 1) / kBitsPerWord; }

// Returns the number of set bits of a word. std::popcount would call the compiler's own library
// unless the compiler may assume that the processor has the instruction. This function sums groups
// of 1, 2 and 4 bits in parallel, then all bytes. It tests first for no bit, a single bit and all
// bits, which are frequent.
inline size_t CountBits(uint64_t word) {
  if ((word & (word - 1)) == 0) return word != 0;
  if (word == ~uint64_t{0}) return kBitsPerWord;
  word -= (word >> 1) & 0x5555555555555555;
  word = (word & 0x3333333333333333) + ((word >> 2) & 0x3333333333333333);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return static_cast<size_t>((word * 0x0101010101010101) >> 56);
}

inline bool TestBit(const uint64_t* words, size_t bit) {
  return (words[bit / kBitsPerWord] >> (bit % kBitsPerWord)) & 1;
}

inline void SetBit(uint64_t* words, size_t bit) {
  words[bit / kBitsPerWord] |= uint64_t{1} << (bit % kBitsPerWord);
}

inline void ClearBit(uint64_t* words, size_t bit) {
  words[bit / kBitsPerWord] &= ~(uint64_t{1} << (bit % kBitsPerWord));
}

// Sets bits [0, bits) and clears the rest of the last word.
inline void SetFirstBits(uint64_t* words, size_t bits) {
  size_t w = 0;
  for (; bits >= kBitsPerWord; bits -= kBitsPerWord) words[w++] = ~uint64_t{0};
  if (bits != 0) words[w] = (uint64_t{1} << bits) - 1;
}

// The first set bit at or after `from`, or `limit` if there is none below `limit`.
inline size_t FindSetBit(const uint64_t* words, size_t from, size_t limit) {
  if (from >= limit) return limit;
  size_t w = from / kBitsPerWord;
  uint64_t word = words[w] & (~uint64_t{0} << (from % kBitsPerWord));
  while (word == 0) {
    if (++w >= WordsForBits(limit)) return limit;
    word = words[w];
  }
  const size_t found = w * kBitsPerWord + static_cast<size_t>(std::countr_zero(word));
  return found < limit ? found : limit;
}

// The first clear bit at or after `from`, or `limit` if there is none below `limit`.
inline size_t FindClearBit(const uint64_t* words, size_t from, size_t limit) {
  if (from >= limit) return limit;
  size_t w = from / kBitsPerWord;
  uint64_t word = ~words[w] & (~uint64_t{0} << (from % kBitsPerWord));
  while (word == 0) {
    if (++w >= WordsForBits(limit)) return limit;
    word = ~words[w];
  }
  const size_t found = w * kBitsPerWord + static_cast<size_t>(std::countr_zero(word));
  return found < limit ? found : limit;
}

// `n` set bits, starting at bit `first`. Requires: n > 0, first + n <= kBitsPerWord.
constexpr uint64_t BitRange(size_t first, size_t n) {
  return (~uint64_t{0} >> (kBitsPerWord - n)) << first;
}

// Calls f(w, mask) for every word with bits in [first, first + n); `mask` has those bits.
template <typename F>
void ForEachWordOfRange(size_t first, size_t n, F f) {
  while (n > 0) {
    const size_t bit = first % kBitsPerWord;
    const size_t here = n < kBitsPerWord - bit ? n : kBitsPerWord - bit;
    f(first / kBitsPerWord, BitRange(bit, here));
    first += here;
    n -= here;
  }
}

// The lowest `n` set bits of `word`, or all if it has fewer. Cost: a step for each, fewer when they
// are adjacent.
constexpr uint64_t LowestSetBits(uint64_t word, size_t n) {
  if (n == 0 || word == 0) return 0;
  const size_t first = static_cast<size_t>(std::countr_zero(word));
  // The shift inserts zeroes from above, so the run of bits ends unless it is the whole word.
  const size_t run = static_cast<size_t>(std::countr_one(word >> first));
  if (n <= run) return BitRange(first, n);
  uint64_t rest = word & ~BitRange(first, run);
  for (n -= run; n > 0 && rest != 0; --n) rest &= rest - 1;
  return word ^ rest;
}

// Splits words into groups of `size` adjacent bits.
class BitGroups {
 public:
  // Requires: size is a power of two below kBitsPerWord.
  explicit constexpr BitGroups(size_t size)
      : size_(size), ones_((uint64_t{1} << size) - 1), starts_(~uint64_t{0} / ones_) {}

  constexpr size_t size() const { return size_; }

  // The bits of the groups in which all bits are set.
  constexpr uint64_t Whole(uint64_t word) const {
    if (word == ~uint64_t{0}) return word;
    // After each step, a bit is set if it and the 2 * shift - 1 bits above it were set.
    for (size_t shift = 1; shift < size_; shift *= 2) word &= word >> shift;
    return (word & starts_) * ones_;
  }

 private:
  // Constant after construction.
  size_t size_;
  uint64_t ones_;    // the lowest group
  uint64_t starts_;  // the lowest bit of every group
};

}  // namespace tcmalloc
