// SPDX-License-Identifier: BSD-3-Clause
// Conversion between two forms of a set of objects: an array of pointers, as threads hold them, and
// a mask for one word of the span's bitmap. No function reads an object or needs a lock.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/bitmap.h"
#include "base/config.h"
#include "base/in_flight.h"
#include "base/tuned.h"

namespace tcmalloc {

// Objects of one word of a bitmap: each set bit i stands for the one at `address` + i * object
// size.
struct ObjectWord {
  uintptr_t address;
  uint64_t mask;
};

// Objects that were taken out of bitmaps and are not yet an array of pointers.
struct ObjectWordsInFlight {
  // Small, because it is on the stack, and threads may have 16 KiB of that.
  static constexpr size_t kMaxWords = 32;

  InFlightMark mark{InFlightMark::Kind::kObjectWords};
  size_t num_words = 0;
  ObjectWord words[kMaxWords];

  bool full() const { return num_words == kMaxWords; }
};

// Writes the objects before `end`, the one with the lowest address last; returns where they begin.
inline void** PrependObjects(const ObjectWord& word, size_t object_size, void** end) {
  if (word.mask == 0) return end;
  const size_t first = static_cast<size_t>(std::countr_zero(word.mask));
  const uint64_t run = word.mask >> first;
  if ((run & (run + 1)) == 0) {
    // All objects are adjacent.
    uintptr_t address = word.address + first * object_size;
    const size_t count = static_cast<size_t>(std::bit_width(run));
    for (size_t fours = count / 4; fours > 0; --fours, end -= 4, address += 4 * object_size) {
      end[-1] = reinterpret_cast<void*>(address);
      end[-2] = reinterpret_cast<void*>(address + object_size);
      end[-3] = reinterpret_cast<void*>(address + 2 * object_size);
      end[-4] = reinterpret_cast<void*>(address + 3 * object_size);
    }
    for (size_t ones = count % 4; ones > 0; --ones, address += object_size) {
      *--end = reinterpret_cast<void*>(address);
    }
    return end;
  }
  for (uint64_t mask = word.mask; mask != 0; mask &= mask - 1) {
    const size_t bit = static_cast<size_t>(std::countr_zero(mask));
    *--end = reinterpret_cast<void*>(word.address + bit * object_size);
  }
  return end;
}

// The bits of the longest prefix of the array in which each object is adjacent in memory to the one
// before, all in one direction and in the same word. objects[0] has bit `bit`; the word stands for
// `word_objects` objects. Sets `*length` to the number of objects, at least 1.
// Requires: n > 0, bit < word_objects <= kBitsPerWord.
inline uint64_t LeadingNeighbours(void* const* objects, size_t n, size_t object_size, size_t bit,
                                  size_t word_objects, size_t* length) {
  *length = 1;
  if (n == 1) return uint64_t{1} << bit;
  const uintptr_t second = reinterpret_cast<uintptr_t>(objects[1]);
  const uintptr_t step = second - reinterpret_cast<uintptr_t>(objects[0]);
  const bool ascending = step == object_size;
  if (!ascending && step != -object_size) return uint64_t{1} << bit;
  const size_t limit = std::min(n, ascending ? word_objects - bit : bit + 1);
  const auto address_of = [&](size_t i) { return reinterpret_cast<uintptr_t>(objects[i]); };
  size_t i = 1;
  uintptr_t expected = second;
  // Four at a time, without a branch for each.
  for (; i + 4 <= limit; i += 4, expected += 4 * step) {
    const uintptr_t differences =
        (address_of(i) ^ expected) | (address_of(i + 1) ^ (expected + step)) |
        (address_of(i + 2) ^ (expected + 2 * step)) | (address_of(i + 3) ^ (expected + 3 * step));
    if (differences != 0) break;
  }
  for (; i < limit && address_of(i) == expected; expected += step) ++i;
  *length = i;
  return BitRange(ascending ? bit : bit + 1 - i, i);
}

// Which CPU has the cache lines of a free object. A line that one CPU wrote and another one has
// read is in both their caches. The first store of the thread that gets the object next, on the
// first CPU, then waits until the other one has given up its copy, one line after the other: 30 ns
// each, measured on two CPUs without a common cache, where a line that only the other one has costs
// 5 ns. So a thread that frees objects of other threads takes their lines for its CPU alone before
// it returns the objects: one store per line, of the byte that is there.
//
// (512 KiB passed round and round between a writer and a reader, million lines per second: 33 when
// the reader only reads, 180 when it takes the lines in batches after reading; with a common cache
// 135 and 250. Prefetching for writing changes nothing, on either side.)
//
// A thread that frees objects of another thread stores to their cache lines if the objects have up
// to this many bytes. The program may not have touched the lines of longer objects, which may be
// unbacked. Two threads that exchange batches of messages take 0.083 s with 1024, 0.114 and 0.104 s
// with 256 and 512 (decision 0011).
inline constexpr size_t kMaxTakenBytes = Tuned(1024, kCacheLineSize, 4096);

// Thread safety: the caller must have the objects. Cost: one load and one store per line.
inline void TakeLines(void* const* objects, size_t n, size_t object_size) {
  uintptr_t last_line = 0;
  for (size_t i = 0; i < n; ++i) {
    uintptr_t address = reinterpret_cast<uintptr_t>(objects[i]);
    const uintptr_t end = address + object_size;
    // Adjacent objects share lines.
    if (address / kCacheLineSize == last_line) {
      address = (last_line + 1) * kCacheLineSize;
    }
    for (; address < end; address = (last_line + 1) * kCacheLineSize) {
      volatile char* const byte = reinterpret_cast<volatile char*>(address);
      *byte = *byte;
      last_line = address / kCacheLineSize;
    }
  }
}

}  // namespace tcmalloc
