// SPDX-License-Identifier: BSD-3-Clause
// Bins: the part of a thread cache that the fast path uses. For each size class an array of
// pointers to free objects, used as a stack; the objects themselves are not written to.
//
//     array:   [0]    [1]   [2]  ...  [n]  ...  [capacity]  [capacity + 1]
//              null   obj   obj       obj                   kFullMark
//                                      ^ top
//
// Pop sees that the bin is empty by the null below the first object, a value that it loads anyway.
// Push sees that it is full by the mark after the last slot, in the slot that it would write. So
// the fast path needs one pointer per bin. The bins of kNone, and all bins of the empty state, are
// both empty and full: every operation leaves the fast path.
//
// Synchronization. Touched only between BeginAccess and EndAccess of a ThreadSlot (see
// thread_slot.h). `tops` may be read racily for statistics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/size_classes.h"

namespace tcmalloc {

// A slot of a bin's array: an object's address, or null, or kFullMark.
using BinSlot = uintptr_t;

inline constexpr BinSlot kFullMark = 1;

// The array of a bin that is both empty and full.
extern const BinSlot kNoBinArray[2];

// The address of the slot of a bin's newest object.
struct BinTop : std::atomic<BinSlot*> {
  constexpr BinTop() : atomic(const_cast<BinSlot*>(kNoBinArray)) {}
};

struct Bins {
  // All bins empty and full, sampling due: for a thread without a cache.
  constexpr Bins() = default;

  // The newest object of the bin, or null when it is empty.
  TC_FAST_PATH void* Pop(SizeClass c) {
    size_t i = Index(c);
    BinSlot* const top = tops[i].load(std::memory_order_relaxed);
    const BinSlot object = *top;
    if (__builtin_expect(object != 0, true)) {
      Forget(&i);
      tops[i].store(top - 1, std::memory_order_relaxed);
    }
    return reinterpret_cast<void*>(object);
  }

  // False when the bin is full, or when `object` is the newest object in it already (freed twice in
  // a row).
  TC_FAST_PATH bool Push(SizeClass c, void* object) {
    size_t i = Index(c);
    BinSlot* const top = tops[i].load(std::memory_order_relaxed);
    if (__builtin_expect(top[1] == kFullMark, false)) return false;
    if (__builtin_expect(top[0] == reinterpret_cast<BinSlot>(object), false)) return false;
    top[1] = reinterpret_cast<BinSlot>(object);
    // A forked child may see the bin after any store of this thread (see ThreadSlot). It must not
    // see the new top before the new slot.
    std::atomic_signal_fence(std::memory_order_release);
    Forget(&i);
    StepUp(tops[i]);
    return true;
  }

  // At offset 0: no displacement to add to the index.
  std::array<BinTop, kNumSizeClasses> tops;
  // The next allocation that takes the fast path may be of at most this many bytes; below that it
  // is time to sample (see Countdown). Written by the owning thread; by others when it shall take
  // the slow path, which it misses when it allocates just then; read by others to see that it is at
  // work.
  std::atomic<size_t> bytes_until_sample{0};

 private:
  // Hides the index from the compiler, which then addresses the bin by base and scaled index in
  // both the load and the store. Otherwise it spends an instruction on a common part of the two.
  static TC_FAST_PATH void Forget(size_t* i) { asm("" : "+r"(*i)); }
};

// The bins of every thread without a cache: not registered yet, exiting, detached, or its cache
// taken for a moment.
extern const Bins kEmptyBins;

}  // namespace tcmalloc
