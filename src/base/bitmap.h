// SPDX-License-Identifier: BSD-3-Clause
// Operations on a bitmap that lies somewhere else: an array of 64-bit words, bit i of word w
// standing for item 64w + i. Thread safety: none.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

inline constexpr size_t kBitsPerWord = 64;

constexpr size_t WordsForBits(size_t bits) { return (bits + kBitsPerWord - 1) / kBitsPerWord; }

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

// The first set bit at or after `from`, or `limit` when there is none below `limit`.
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

}  // namespace tcmalloc
