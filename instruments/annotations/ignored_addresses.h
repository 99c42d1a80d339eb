// SPDX-License-Identifier: BSD-3-Clause
// IgnoredAddresses: a hash table of the addresses of objects that must not be reported as leaked,
// as the program requested. The caller owns the records.
//
// Lock: LockRank::kLeaks. Thread safety: any thread. Cost: a lock and a walk along one bucket.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/spinlock.h"

namespace tcmalloc {

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
  friend struct FieldTable;

  // A program may ignore very many addresses.
  static constexpr size_t kNumBuckets = 256;
  static size_t BucketOf(uintptr_t address) {
    return ((address >> 3) * uint64_t{0x9e3779b97f4a7c15}) >> 56;
  }

  SpinLock lock_{LockRank::kLeaks};
  IgnoredAddress* buckets_[kNumBuckets] TC_GUARDED_BY(lock_) = {};
};

// The ignored addresses of the process.
extern IgnoredAddresses process_ignored_addresses;

}  // namespace tcmalloc
