// SPDX-License-Identifier: BSD-3-Clause
// InFlightLayout: the layout of records of objects in flight on stacks (base/in_flight.h): offsets
// and constants of the allocator whose memory is searched. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

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
