// SPDX-License-Identifier: BSD-3-Clause
// BinTable: the bins of one thread cache and their arrays. It knows their contents and the bytes
// that they claim, and makes the changes of an access section to them. ThreadCache makes the
// decisions and calls the other parts of the heap.
//
// Invariants
//   B1  Array(i) is null and the top of bin i is kNoBinArray, or slot 0 of the array is null, slot
//       limit + 1 is kFullMark and no other is, limit <= capacity, and the top points to one of the
//       slots 0 .. limit.
//   B2  Slots 1 .. top are free objects of the class.
//   B3  claimed_bytes() is the sum over the arrays of limit * object size + bytes();
//       array_bytes() of bytes() alone.
//
// Synchronization. Functions that change or read a bin are called in an access section of the
// cache's slot, or by a thread that has taken the cache (registry.h). Any thread may call the
// functions below "For any thread"; they are racy while the owner runs.
// Cost: a few nanoseconds, plus a copy of the objects that move.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/counters.h"
#include "base/in_flight.h"
#include "base/size_classes.h"
#include "page_heap/metadata_arena.h"
#include "thread_cache/bin_policy.h"
#include "thread_cache/bins.h"

namespace tcmalloc {

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
  // Garbage collections since the bin last ran empty or full, at most kMaxUnusedFor.
  uint8_t unused_for : 4;
  // The number of objects that the bin fetched and did not return; 0 if it returned more.
  uint64_t fetched;

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

// kMaxBinObjects relies on it.
static_assert(sizeof(BinArray) == 16 && alignof(BinArray) % alignof(BinSlot) == 0);

class BinTable {
 public:
  // The part that the fast path uses.
  Bins& bins() { return bins_; }

  // Null if the bin has no array.
  BinArray* Array(size_t i) const { return arrays_[i].load(std::memory_order_relaxed); }
  // Replaces the bin's array; the new one gets its objects and history. The caller frees the old
  // one. Requires: `fresh` is empty, and has room for the objects.
  void Install(size_t i, BinArray* fresh);
  // Requires: the bin has an array with room for `limit` objects, and at most that many objects.
  void SetLimit(size_t i, size_t limit);
  // Removes the bin's array with its objects.
  void Remove(size_t i);
  // Detaches all arrays and puts them in front of `arrays`.
  void Detach(BinArraysInFlight* arrays);
  // Leaks all arrays and their objects. The bins may be inconsistent.
  void Leak();

  // The number of objects in the bin. Requires: it has an array.
  size_t Count(size_t i) const {
    return static_cast<size_t>(bins_.tops[i].load(std::memory_order_relaxed) - Array(i)->slots());
  }
  // Pushes the last of `n` objects, as many as fit, in their order: the last will be popped first.
  // Returns how many did not fit. Requires: the bin has an array.
  size_t PushAll(size_t i, void* const* objects, size_t n);
  // Takes up to max_move_objects of the `n` oldest objects out of the bin; returns how many.
  size_t TakeOldest(size_t i, void** objects, size_t n);
  // True if the object is the newest one in the bin: then this is a second free of it.
  bool IsNewest(size_t i, const void* object) const {
    return *bins_.tops[i].load(std::memory_order_relaxed) == reinterpret_cast<BinSlot>(object);
  }

  // Counts a use of a class without an array. True if it is one of the first, for which no array is
  // made (bin_policy::UsesWithoutBin).
  bool CountsAsSeldom(SizeClass c) {
    uint8_t& uses = uses_without_bin_[Index(c)];
    if (uses >= bin_policy::UsesWithoutBin(c)) return false;
    ++uses;
    return true;
  }
  void ForgetUses() { uses_without_bin_ = {}; }

  // Calls f(class, address, distance above the bin's top) for every slot of every bin that holds an
  // address: 0 and less for objects in the bin, more for stale addresses above. While the owner
  // makes several changes (ThreadCache::changing), the tops are not valid. Requires: the caller is
  // the owner, or the owner is not running.
  template <typename F>
  void ForEachSlot(F f) const {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const BinArray* const array = Array(i);
      if (array == nullptr) continue;
      const BinSlot* const slots = array->slots();
      const BinSlot* const top = bins_.tops[i].load(std::memory_order_relaxed);
      for (size_t slot = 1; slot <= array->capacity; ++slot) {
        if (slots[slot] == 0 || slots[slot] == kFullMark) continue;
        f(static_cast<SizeClass>(i), slots[slot], slots + slot - top);
      }
    }
  }

  // For any thread. Each bin's figure was correct to one object at some moment during the call, or
  // is 0 because the bin's array was being replaced.
  size_t CachedObjects(SizeClass c) const;
  size_t CachedBytes() const;
  // Bytes of the bins' arrays, as the arena counts them.
  size_t array_bytes() const { return array_bytes_.value(); }
  // The bytes that the bins' limits allow, plus the bytes of their arrays.
  size_t claimed_bytes() const { return claimed_bytes_.value(); }
  // The number that the fast path of each allocation counts down.
  size_t bytes_until_sample() const {
    return bins_.bytes_until_sample.load(std::memory_order_relaxed);
  }

  // Aborts when an invariant does not hold. The caller is the owner, or the owner is not running.
  void CheckInvariants() const;

 private:
  void SetTop(size_t i, size_t slot) {
    bins_.tops[i].store(Array(i)->slots() + slot, std::memory_order_relaxed);
  }

  Bins bins_;
  std::array<std::atomic<BinArray*>, kNumSizeClasses> arrays_ = {};
  std::array<uint8_t, kNumSizeClasses> uses_without_bin_ = {};
  // Written by the thread that has the cache; read racily for statistics.
  OwnedCounter claimed_bytes_;
  OwnedCounter array_bytes_;
};

}  // namespace tcmalloc
