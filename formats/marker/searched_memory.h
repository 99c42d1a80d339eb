// SPDX-License-Identifier: BSD-3-Clause
// The memory that a search reads: which pages it wants, how it loads a word, and the layout of
// objects in flight on stacks.
//
// Memory is the type by which a search reads. It has
//   Word                          the type of a pointer in the memory that is searched
//   FindDirect(start, end, &by)   whether all of [start, end) can be read by plain loads, at
//                                 addresses that are larger by `by` (modulo 2^64)
//   Copy(to, start, bytes)        if it cannot: copies up to the first byte that cannot be read,
//   and
//                                 returns how many bytes that are
//   Prefetch(address)
//   TakeFirst(&rest, want, &part) sets `part` to the first part of `rest` with pages of that kind
//                                 (WantedPages), and `rest` to what is after it; false when there
//                                 is none
//   in_flight()                   an InFlightLayout
// Memory that FindDirect accepts must be readable, except for the parts of objects that
// SetUnreadable names. Memory that is read by Copy need not be readable: the marker skips
// unreadable bytes and counts them. In long ranges and objects it reads only backed pages, so it
// makes no page resident that was never touched, unless the OS does not report which pages these
// are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/raw_memory.h"

namespace tcmalloc {

// WantedPages: the kinds of pages that a search requests.
enum class WantedPages : uint8_t {
  kAny,      // backed, by memory or swap
  kWritten,  // backed by private memory, which is neither of a file nor shared
  kGuard,    // a guard page, whose access ends the process (MADV_GUARD_INSTALL)
};

// Loads one word by a Memory. Returns 0 if the word cannot be read.
template <typename Memory>
inline uintptr_t LoadWord(const Memory& memory, uintptr_t address) {
  using Word = typename Memory::Word;
  uintptr_t by = 0;
  if (memory.FindDirect(address, address + sizeof(Word), &by)) return LoadRaw<Word>(address + by);
  Word word = 0;
  return memory.Copy(&word, address, sizeof(word)) == sizeof(word) ? word : 0;
}

// InFlightLayout: the layout of records of objects in flight on stacks (base/in_flight.h): offsets
// and constants of the allocator whose memory is searched. Plain data.
struct InFlightLayout {
  // Each record begins with two words: this value xor its own address, and its kind.
  uint64_t tag = 0;
  uint64_t object_words_kind = 0;
  uint64_t bin_arrays_kind = 0;

  // Objects that were taken out of bitmaps (ObjectWordsInFlight). Each element is the address of
  // an object and a mask of 64 bits of it and the following ones.
  size_t object_words_bytes = 0;
  size_t num_words_at = 0;
  size_t words_at = 0;
  size_t max_words = 0;
  size_t word_bytes = 0;    // of an element
  size_t word_mask_at = 0;  // in an element

  // A chain of arrays that were detached from a cache (BinArraysInFlight, BinArray). The slots
  // follow the array: the first one is the next array of the chain, the others are objects.
  size_t bin_arrays_bytes = 0;
  size_t chain_at = 0;
  size_t array_bytes = 0;
  size_t array_count_at = 0;  // a number of 16 bits
};

}  // namespace tcmalloc
