// SPDX-License-Identifier: BSD-3-Clause
// MappedRanges: the address ranges that one memory source has mapped for the allocator. A search of
// the process's memory for pointers excludes them.
//
// Role. A sorted array of ranges, with adjacent ones joined. A short array is in the object itself,
// a longer one in a mapping, which it lists as well. If a range cannot be listed for lack of
// memory, the list stays incomplete.
//
// Invariants
//   A1  The ranges are sorted, not empty, and neither overlap nor touch.
//
// Lock: LockRank::kMappedRanges. Cost: a binary search, and moving the entries after the change.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/address_range.h"
#include "base/compiler.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"

namespace tcmalloc {

class MappedRanges {
 public:
  constexpr MappedRanges() = default;
  MappedRanges(const MappedRanges&) = delete;
  MappedRanges& operator=(const MappedRanges&) = delete;

  // `vm` provides memory for the array if necessary. Parts of the range may be listed already when
  // it is added, and may be missing when it is removed. No lock may be held.
  void Add(const void* start, size_t bytes, VirtualMemory& vm) TC_EXCLUDES(lock_);
  void Remove(const void* start, size_t bytes, VirtualMemory& vm) TC_EXCLUDES(lock_);

  // True if the list has all mapped memory.
  bool is_complete() const { return is_complete_.load(std::memory_order_relaxed); }

  size_t size() TC_EXCLUDES(lock_);
  // True if the whole range is listed.
  bool Contains(const void* start, size_t bytes) TC_EXCLUDES(lock_);
  // Copies at most `n` ranges, lowest first; returns how many there are.
  size_t CopyTo(AddressRange* ranges, size_t n) TC_EXCLUDES(lock_);

  void CheckInvariants() TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  // Usual heaps have fewer ranges, since most of their mappings are adjacent.
  static constexpr size_t kFirst = 16;
  static constexpr size_t kSpare = 2;

  static AddressRange RangeOf(const void* start, size_t bytes) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(start);
    return {address, address + bytes};
  }
  AddressRange* RangesLocked() TC_REQUIRES(lock_) {
    return mapped_ranges_ != nullptr ? mapped_ranges_ : first_ranges_;
  }
  const AddressRange* RangesLocked() const TC_REQUIRES(lock_) {
    return mapped_ranges_ != nullptr ? mapped_ranges_ : first_ranges_;
  }
  // True if there is room for a change, which adds at most one range, and for a move of the array,
  // which adds two.
  bool HasRoomLocked() const TC_REQUIRES(lock_) { return size_ + kSpare < capacity_; }
  // Makes room, without the lock; false when there is no memory.
  bool Grow(VirtualMemory& vm) TC_EXCLUDES(lock_);
  // The first range that ends at or after `address`.
  size_t FindLocked(uintptr_t address) const TC_REQUIRES(lock_);
  void AddLocked(AddressRange range) TC_REQUIRES(lock_);
  void RemoveLocked(AddressRange range) TC_REQUIRES(lock_);
  // Replaces the ranges from `first` to `last` by `n` others.
  void ReplaceLocked(size_t first, size_t last, const AddressRange* with, size_t n)
      TC_REQUIRES(lock_);
  template <typename Change>
  void ChangeWithRoom(VirtualMemory& vm, Change change) TC_EXCLUDES(lock_);

  SpinLock lock_{LockRank::kMappedRanges};
  AddressRange first_ranges_[kFirst] TC_GUARDED_BY(lock_) = {};
  // Null if the ranges are in first_ranges_.
  AddressRange* mapped_ranges_ TC_GUARDED_BY(lock_) = nullptr;
  size_t mapped_bytes_ TC_GUARDED_BY(lock_) = 0;
  size_t size_ TC_GUARDED_BY(lock_) = 0;
  size_t capacity_ TC_GUARDED_BY(lock_) = kFirst;

  // Cleared once, by any thread that lacks memory; read by users of the list. Relaxed, since no
  // other data depends on it.
  std::atomic<bool> is_complete_{true};
};

}  // namespace tcmalloc
