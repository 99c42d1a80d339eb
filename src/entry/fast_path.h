// SPDX-License-Identifier: BSD-3-Clause
// The fast path of malloc and free: nearly every call runs only this, inlined into every entry
// point. No lock, no atomic read-modify-write, no call but a tail call of the slow path, no write
// into a free object.
//
// Allocation: size to class (a load), the thread's bins, the sampling counter, pop.
// Deallocation: page to class (two loads, any address), the thread's bins, push. First use, an
// ending thread, a cache that another thread is taking, a due sample, and a null, foreign or large
// pointer need no branches of their own: in each case a bin is empty or full, or the counter is at
// zero. Every slow path starts with LeaveFastPath.
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "base/size_classes.h"
#include "heap/fast_path_data.h"

namespace tcmalloc {

// Ends the access section of a fast path that failed.
TC_FAST_PATH void LeaveFastPath() { current_slot.EndAccess(); }

// Returns an object of class `c` for a request of `size` bytes, or null if the slow path must
// provide it.
TC_FAST_PATH void* AllocateFast(ScaledClass c, size_t size) {
  ThreadSlot& slot = current_slot;
  Bins* const bins = slot.BeginAccess();
  size_t left;
  if (__builtin_expect(__builtin_sub_overflow(
                           bins->bytes_until_sample.load(std::memory_order_relaxed), size, &left),
                       false)) {
    return nullptr;
  }
  KeepInOtherRegister(&left);
  void* const object = bins->Bin(c)->Pop();
  if (__builtin_expect(object == nullptr, false)) return nullptr;
  bins->bytes_until_sample.store(left, std::memory_order_relaxed);
  slot.EndAccess();
  return object;
}

template <void* (*Slow)(size_t)>
TC_FAST_PATH void* Allocate(size_t size) {
  ScaledClass c;
  if (__builtin_expect(size <= SizeClasses::kMaxFineSize, true)) {
    c = kSizeClasses.FineClassOf(size);
  } else if (size <= kMaxSmallSize) {
    c = kSizeClasses.CoarseClassOf(size);
    // Keeps clang from making one load of two, after the branches: that takes one more instruction.
    asm("" : "+r"(c));
  } else {
    return Slow(size);
  }
  if (void* const object = AllocateFast(c, size); __builtin_expect(object != nullptr, true)) {
    return object;
  }
  return Slow(size);
}

// False if the slow path must free `p`.
TC_FAST_PATH bool FreeFast(ScaledClass c, void* p) {
  ThreadSlot& slot = current_slot;
  BinTop* const bin = slot.BeginAccess(c);
  if (__builtin_expect(!bin->Push(p), false)) return false;
  slot.EndAccess();
  return true;
}

template <void (*Slow)(void*)>
TC_FAST_PATH void Deallocate(void* p) {
  ScaledClass c;
  if (__builtin_expect(!global_page_map.Find(p, &c) || !FreeFast(c, p), false)) Slow(p);
}

// Deallocate with the size that the program requested. The slow path reports an object of another
// class, and compares the size of a large one.
template <void (*Slow)(void*, size_t)>
TC_FAST_PATH void DeallocateSized(void* p, size_t size) {
  ScaledClass c;
  if (__builtin_expect(!global_page_map.Find(p, &c), false)) return Slow(p, size);
  // Two comparisons, each with its own exit: one combined condition would cost small sizes extra
  // jumps.
  if (__builtin_expect(size <= SizeClasses::kMaxFineSize, true)) {
    if (__builtin_expect(!kSizeClasses.IsFineClassOf(c, size) || !FreeFast(c, p), false)) {
      Slow(p, size);
    }
  } else if (c != kSizeClasses.ScaledClassOf(size) || !FreeFast(c, p)) {
    Slow(p, size);
  }
}

}  // namespace tcmalloc
