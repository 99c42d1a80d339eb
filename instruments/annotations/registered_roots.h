// SPDX-License-Identifier: BSD-3-Clause
// Memory that the program has registered because it holds pointers. The leak checker treats it as a
// root, whatever it is, if it can be read.
//
// Lock: LockRank::kLeaks, for list operations. A thread that stops the others and then reads the
// list takes `lock()` before it stops them. Thread safety: any thread. Never allocates through
// malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "os/memory/mapped_ranges.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"

namespace tcmalloc {

class RegisteredRoots {
 public:
  constexpr RegisteredRoots() = default;
  RegisteredRoots(const RegisteredRoots&) = delete;
  RegisteredRoots& operator=(const RegisteredRoots&) = delete;

  // A range may be registered several times, and counts until it is unregistered as many times.
  // False when it is empty, reaches past the end of the address space, or `vm`, always the same
  // one, has no memory.
  bool Register(const void* start, size_t bytes, VirtualMemory& vm) TC_EXCLUDES(lock_);
  // False when [start, start + bytes) is not registered.
  bool Unregister(const void* start, size_t bytes) TC_EXCLUDES(lock_);

  size_t size() TC_EXCLUDES(lock_);
  // Copies at most `n` ranges; returns how many.
  size_t CopyTo(AddressRange* ranges, size_t n) TC_EXCLUDES(lock_);

  SpinLock& lock() { return lock_; }

 private:
  friend struct FieldTable;

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

// The registered roots of the process.
extern RegisteredRoots process_registered_roots;
inline RegisteredRoots& ProcessRegisteredRoots() { return process_registered_roots; }

}  // namespace tcmalloc
