// SPDX-License-Identifier: BSD-3-Clause
// BinArray: the memory of one bin of a thread cache: a header and the slots (drawn in bins.h).
//
//     header | [0] null | [1] .. [limit] objects | [limit + 1] kFullMark | .. [capacity + 1]
//
// `limit` is the number of objects that the growth policy allows, `capacity` the number for which
// the array has room. To change the limit within the capacity, move the mark. Only the slot after
// the limit holds the mark.
//
// A detached array has left its cache: slot 0 holds the address of the next array of its chain,
// slots 1 .. count hold objects. The contents of whole caches move to the central cache in chains.
//
// Synchronization. An attached array is guarded by the access sections of the cache's slot; a
// detached one belongs to the chain's owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/in_flight.h"
#include "base/size_classes.h"
#include "page_heap/metadata_arena.h"
#include "thread_cache/bins.h"

namespace tcmalloc {

struct BinArray {
  // The number of objects that fit.
  uint16_t capacity;
  // The number of objects that the bin may hold now.
  uint16_t limit;
  // Valid only in a detached array.
  uint16_t count;
  SizeClass size_class;
  // Overflows while the limit was above a batch, since the limit last shrank because of them (see
  // bin_policy::DecideOverflow).
  uint8_t overages : 4;
  // Garbage collections since the bin last ran empty or full, at most 15.
  uint8_t unused_for : 4;
  // The objects that the bin has fetched and not returned (see bin_policy::BalanceAfter).
  int64_t balance;

  BinSlot* slots() { return reinterpret_cast<BinSlot*>(this + 1); }
  const BinSlot* slots() const { return reinterpret_cast<const BinSlot*>(this + 1); }

  // The bytes that an array with room for `capacity` objects takes in the arena.
  static constexpr size_t BytesFor(size_t capacity) {
    return MetadataArena::RoundedBytes(sizeof(BinArray) + (capacity + 2) * sizeof(BinSlot));
  }
  static constexpr size_t CapacityOf(size_t bytes) {
    return (bytes - sizeof(BinArray)) / sizeof(BinSlot) - 2;
  }
  size_t bytes() const { return BytesFor(capacity); }
};

// A chain of detached arrays, on its way to the central cache.
struct BinArraysInFlight {
  InFlightMark mark{InFlightMark::Kind::kBinArrays};
  // Only the chain's owner writes it; others read it while the owner is stopped.
  std::atomic<BinArray*> chain{nullptr};

  BinArray* first() const { return chain.load(std::memory_order_relaxed); }
  void set_first(BinArray* array) { chain.store(array, std::memory_order_relaxed); }
};

// Tuning::Bins::max_objects relies on it.
static_assert(sizeof(BinArray) == 16 && alignof(BinArray) % alignof(BinSlot) == 0);

}  // namespace tcmalloc
