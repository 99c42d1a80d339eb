// SPDX-License-Identifier: BSD-3-Clause
// What the program has told the leak checker: memory that holds pointers, objects to ignore, and
// the mark in the record of each allocation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.h"
#include "os/memory/mapped_ranges.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"

namespace tcmalloc {

// Memory that the program has registered because it holds pointers. The leak checker treats it as a
// root, whatever it is, if it can be read.
//
// Lock: LockRank::kLeaks, for list operations. A thread that stops the others and then reads the
// list takes `lock()` before it stops them. Thread safety: any thread. Never allocates through
// malloc.
class RegisteredRoots {
 public:
  constexpr RegisteredRoots() = default;
  RegisteredRoots(const RegisteredRoots&) = delete;
  RegisteredRoots& operator=(const RegisteredRoots&) = delete;

  // A range may be registered several times; it counts until it has been unregistered as many
  // times. Returns false when the range is empty or reaches past the end of the address space, or
  // when `vm` has no memory. All calls must pass the same `vm`.
  bool Register(const void* start, size_t bytes, VirtualMemory& vm) TC_EXCLUDES(lock_);
  // False when [start, start + bytes) is not registered.
  bool Unregister(const void* start, size_t bytes) TC_EXCLUDES(lock_);

  size_t size() TC_EXCLUDES(lock_);
  // Copies at most `n` ranges; returns how many.
  size_t CopyTo(AddressRange* ranges, size_t n) TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  static constexpr size_t kFirst = 32;

  AddressRange* RangesLocked() TC_REQUIRES(lock_) { return mapped_ != nullptr ? mapped_ : first_; }
  // Makes room for `capacity` ranges, without the lock. False when there is no memory.
  bool Grow(size_t capacity, VirtualMemory& vm) TC_EXCLUDES(lock_);

  SpinLock lock_{LockRank::kLeaks};
  AddressRange first_[kFirst] TC_GUARDED_BY(lock_) = {};
  // Null if the ranges are in first_.
  AddressRange* mapped_ TC_GUARDED_BY(lock_) = nullptr;
  size_t mapped_bytes_ TC_GUARDED_BY(lock_) = 0;
  size_t size_ TC_GUARDED_BY(lock_) = 0;
  size_t capacity_ TC_GUARDED_BY(lock_) = kFirst;
};

inline bool RegisteredRoots::Register(const void* start, size_t bytes, VirtualMemory& vm) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(start);
  if (bytes == 0 || bytes > UINTPTR_MAX - address) return false;
  for (;;) {
    size_t capacity;
    {
      const SpinLockHolder holder(lock_);
      if (size_ < capacity_) {
        RangesLocked()[size_++] = {address, address + bytes};
        return true;
      }
      capacity = 2 * capacity_;
    }
    if (!Grow(capacity, vm)) return false;
  }
}

inline bool RegisteredRoots::Grow(size_t capacity, VirtualMemory& vm) {
  const size_t page = vm.hardware_page_size();
  Mapping useless = vm.Map((capacity * sizeof(AddressRange) + page - 1) / page * page, page);
  if (useless.start == nullptr) return false;
  {
    const SpinLockHolder holder(lock_);
    // Another thread may have grown it meanwhile.
    if (capacity_ < capacity) {
      const Mapping larger = useless;
      useless = {mapped_, mapped_bytes_};
      memcpy(larger.start, RangesLocked(), size_ * sizeof(AddressRange));
      mapped_ = static_cast<AddressRange*>(larger.start);
      mapped_bytes_ = larger.bytes;
      capacity_ = larger.bytes / sizeof(AddressRange);
    }
  }
  // If the system refuses, only address space is wasted.
  if (useless.start != nullptr) static_cast<void>(vm.Unmap(useless.start, useless.bytes));
  return true;
}

inline bool RegisteredRoots::Unregister(const void* start, size_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(start);
  const SpinLockHolder holder(lock_);
  AddressRange* const ranges = RangesLocked();
  for (size_t i = 0; i < size_; ++i) {
    if (ranges[i].start != address || ranges[i].end - address != bytes) continue;
    ranges[i] = ranges[--size_];
    return true;
  }
  return false;
}

inline size_t RegisteredRoots::size() {
  const SpinLockHolder holder(lock_);
  return size_;
}

inline size_t RegisteredRoots::CopyTo(AddressRange* ranges, size_t n) {
  const SpinLockHolder holder(lock_);
  n = std::min(n, size_);
  if (n > 0) memcpy(ranges, RangesLocked(), n * sizeof(AddressRange));
  return n;
}

// The registered roots of the process.
inline constinit RegisteredRoots process_registered_roots;
inline RegisteredRoots& ProcessRegisteredRoots() { return process_registered_roots; }

// IgnoredAddresses: a hash table of the addresses of objects that must not be reported as leaked,
// as the program requested. The caller owns the records.
//
// Lock: LockRank::kLeaks. Thread safety: any thread. Cost: a lock and a walk along one bucket.
struct IgnoredAddress {
  IgnoredAddress* next = nullptr;
  uintptr_t address = 0;
};

class IgnoredAddresses {
 public:
  constexpr IgnoredAddresses() = default;
  IgnoredAddresses(const IgnoredAddresses&) = delete;
  IgnoredAddresses& operator=(const IgnoredAddresses&) = delete;

  void Add(IgnoredAddress* record) TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    IgnoredAddress*& bucket = buckets_[BucketOf(record->address)];
    record->next = bucket;
    bucket = record;
  }
  // Removes and returns a record of that address; null when there is none.
  IgnoredAddress* Remove(uintptr_t address) TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    IgnoredAddress** link = &buckets_[BucketOf(address)];
    while (*link != nullptr && (*link)->address != address) link = &(*link)->next;
    IgnoredAddress* const found = *link;
    if (found != nullptr) *link = found->next;
    return found;
  }
  // Calls f(address) for each ignored address, with the lock held.
  template <typename F>
  void ForEach(F f) TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    for (const IgnoredAddress* record : buckets_) {
      for (; record != nullptr; record = record->next) f(record->address);
    }
  }

  SpinLock& lock() { return lock_; }

 private:
  // A program may ignore very many addresses.
  static constexpr size_t kNumBuckets = 256;
  static size_t BucketOf(uintptr_t address) {
    return ((address >> 3) * uint64_t{0x9e3779b97f4a7c15}) >> 56;
  }

  SpinLock lock_{LockRank::kLeaks};
  IgnoredAddress* buckets_[kNumBuckets] TC_GUARDED_BY(lock_) = {};
};

// The ignored addresses of the process.
inline constinit IgnoredAddresses process_ignored_addresses;

// The mark that each record of an allocation has (instruments/profiles/heap_profiler.h): the
// period in which the object was allocated, and whether it must not be reported as leaked.
inline constexpr uint32_t kIgnoredMark = uint32_t{1} << 23;
inline constexpr uint32_t kLastPeriod = kIgnoredMark - 1;
constexpr uint32_t PeriodOf(uint32_t mark) { return mark & kLastPeriod; }

}  // namespace tcmalloc
