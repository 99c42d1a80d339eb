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

// A bin: the address of the slot of its newest object.
struct BinTop : std::atomic<BinSlot*> {
  constexpr BinTop() : atomic(const_cast<BinSlot*>(kNoBinArray)) {}

  // The newest object of the bin, or null when it is empty.
  TC_FAST_PATH void* Pop() {
    BinSlot* const top = load(std::memory_order_relaxed);
    BinSlot object = *top;
    KeepInResultRegister(&object);
    if (__builtin_expect(object != 0, true)) store(top - 1, std::memory_order_relaxed);
    return reinterpret_cast<void*>(object);
  }

  // False when the bin is full, or when `object` is the newest object in it already (freed twice in
  // a row).
  TC_FAST_PATH bool Push(void* object) {
    BinSlot* const top = load(std::memory_order_relaxed);
    if (__builtin_expect(top[1] == kFullMark, false)) return false;
    if (__builtin_expect(top[0] == reinterpret_cast<BinSlot>(object), false)) return false;
    top[1] = reinterpret_cast<BinSlot>(object);
    // A forked child may see the bin after any store of this thread (see ThreadSlot). It must not
    // see the new top before the new slot.
    std::atomic_signal_fence(std::memory_order_release);
    store(top + 1, std::memory_order_relaxed);
    return true;
  }
};

struct Bins {
  // All bins empty and full, sampling due: for a thread without a cache.
  constexpr Bins() = default;

  // The bin of a class. The address is computed once, into one register: the processor passes what
  // was stored in a bin on to the next load at once, but only where the addresses of both
  // instructions have no index register (decision 0047).
  static TC_FAST_PATH BinTop* At(const std::atomic<Bins*>& bins, ScaledClass c) {
    return Visible(AddLoaded(bins, static_cast<uintptr_t>(c), std::memory_order_acquire));
  }
  TC_FAST_PATH BinTop* Bin(ScaledClass c) {
    return Visible(reinterpret_cast<uintptr_t>(this) + static_cast<uintptr_t>(c));
  }

  void* Pop(SizeClass c) { return Bin(Scaled(c))->Pop(); }
  bool Push(SizeClass c, void* object) { return Bin(Scaled(c))->Push(object); }

  // At offset 0: the address of the bins plus the class is that of the bin.
  std::array<BinTop, kNumSizeClasses> tops;
  // The next allocation that takes the fast path may be of at most this many bytes; below that it
  // is time to sample (see Countdown). Written by the owning thread; by others when it shall take
  // the slow path, which it misses when it allocates just then; read by others to see that it is at
  // work.
  std::atomic<size_t> bytes_until_sample{0};

 private:
  // Makes the compiler compute the address in a register, instead of in each load and store.
  static TC_FAST_PATH BinTop* Visible(uintptr_t bin) {
    asm("" : "+r"(bin));
    return reinterpret_cast<BinTop*>(bin);
  }
};

static_assert(sizeof(BinTop) == sizeof(void*) && offsetof(Bins, tops) == 0);

// The bins of every thread without a cache: not registered yet, exiting, detached, or its cache
// taken for a moment.
extern const Bins kEmptyBins;

}  // namespace tcmalloc
