// SPDX-License-Identifier: BSD-3-Clause
// The fast path of malloc and free: nearly every call runs only this, inlined into every entry
// point. It takes no lock, makes no atomic read-modify-write, no call but a tail call of the slow
// path, and no write into a free object.
//
// An allocation maps the size to a class (one load), finds the thread's bins, counts down the
// sampling counter, and pops an object. A deallocation maps the page to a class (two loads, for any
// address), finds the thread's bins, and pushes the object. First use, an ending thread, a cache
// that another thread is taking, a due sample, and a null, foreign or large pointer need no
// branches of their own: in each case a bin is empty or full, or the counter is at zero. Every slow
// path starts with LeaveFastPath.
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "base/size_classes.h"
#include "process/fast_path_data.h"

namespace tcmalloc {

// Ends the access section of a fast path that failed.
TC_FAST_PATH void LeaveFastPath() { current_slot.EndAccess(); }

// Returns an object of class `c` for a request of `size` bytes, or null if the slow path must
// provide it.
TC_FAST_PATH void* AllocateFast(ScaledClass c, size_t size) {
  ThreadSlot& slot = current_slot;
  Bins* const bins = slot.BeginFastAccess();
  size_t left;
  if (__builtin_expect(__builtin_sub_overflow(LoadWord(bins->bytes_until_sample), size, &left),
                       false)) {
    return nullptr;
  }
  KeepInOtherRegister(&left);
  void* const object = bins->Bin(c)->Pop();
  if (__builtin_expect(object == nullptr, false)) return nullptr;
  StoreWord(bins->bytes_until_sample, left);
  slot.EndAccess();
  return object;
}

// Whether the fine table has the class of `size`. On ARM it compares the index, which fits in an
// instruction, and sets `*index`. There the seven largest values of size_t count as fine, too,
// since the sum with 7 overflows. AllocateFast leaves them to the slow path, since no count of
// bytes until a sample is that large.
TC_FAST_PATH bool IsFine(size_t size, size_t* index) {
  if constexpr (!kForArm) return size <= SizeClasses::kMaxFineSize;
  *index = SizeClasses::FineIndex(size);
  ComputeHere(index);
  return *index <= SizeClasses::kMaxFineIndex;
}

template <void* (*Slow)(size_t)>
TC_FAST_PATH void* Allocate(size_t size) {
  ScaledClass c;
  size_t index = 0;
  if (__builtin_expect(IsFine(size, &index), true)) {
    c = kForArm ? kSizeClasses.FineClassAt(index) : kSizeClasses.FineClassOf(size);
  } else if (size <= kMaxSmallSize) {
    c = kSizeClasses.CoarseClassOf(size);
    // Keeps clang from merging the two loads into one after the branches, which takes one more
    // instruction.
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
  BinTop* const bin = slot.BeginFastAccess(c);
  if (__builtin_expect(!bin->Push(p), false)) return false;
  slot.EndAccess();
  return true;
}

static_assert(!kForArm || __alignof__(global_page_map) >= 4096,
              "AtPage leaves out the lowest bits");

template <void (*Slow)(void*)>
TC_FAST_PATH void Deallocate(void* p) {
  ScaledClass c;
  if (__builtin_expect(!AtPage(&global_page_map)->Find(p, &c) || !FreeFast(c, p), false)) Slow(p);
}

// Deallocate with the size that the program requested. The slow path reports an object of another
// class, and compares the size of a large object.
template <void (*Slow)(void*, size_t)>
TC_FAST_PATH void DeallocateSized(void* p, size_t size) {
  ScaledClass c;
  if (__builtin_expect(!AtPage(&global_page_map)->Find(p, &c), false)) return Slow(p, size);
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
