// SPDX-License-Identifier: BSD-3-Clause
// Bins: the part of a thread cache that the fast path uses. It has an array of pointers to free
// objects for each size class, used as a stack. The objects themselves are not written to.
//
//     array:   [0]    [1]   [2]  ...  [n]  ...  [capacity]  [capacity + 1]
//              null   obj   obj       obj                   kFullMark
//                                      ^ top
//
// Pop recognises an empty bin by the null below the first object, a value that it loads anyway.
// Push recognises a full bin by the mark after the last slot, in the slot that it would write. So
// the fast path needs one pointer per bin. The bins of kNone, and all bins of the empty state, are
// both empty and full: every operation leaves the fast path.
//
// Synchronization. A thread touches bins only between BeginAccess and EndAccess of a ThreadSlot
// (see thread_slot.h). `tops` may be read racily for statistics.
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
    BinSlot* const top = LoadWord(*this);
    BinSlot object = *top;
    KeepInResultRegister(&object);
    if constexpr (kForArm) {
      // ARM loads and subtracts in one instruction.
      BinSlot* below = top - 1;
      ComputeHere(&below);
      if (__builtin_expect(object != 0, true)) StoreWord<BinSlot*>(*this, below);
    } else {
      if (__builtin_expect(object != 0, true)) StoreWord<BinSlot*>(*this, top - 1);
    }
    return reinterpret_cast<void*>(object);
  }

  // False when the bin is full, or when `object` is the newest object in it already (freed twice in
  // a row).
  TC_FAST_PATH bool Push(void* object) {
    BinSlot* const top = LoadWord(*this);
    if constexpr (kForArm) {
      const BinSlot newest = top[0];
      const BinSlot next = top[1];
      // Other slots hold addresses of objects, which are even. A free slot holds an odd value only
      // if the program freed an odd address. Then this bin counts as full, and the slow path
      // returns objects from it although there is room.
      if (__builtin_expect((next & kFullMark) != 0, false)) return false;
      KeepConditionsApart();
      if (__builtin_expect(newest == reinterpret_cast<BinSlot>(object), false)) return false;
    } else {
      if (__builtin_expect(top[1] == kFullMark, false)) return false;
      if (__builtin_expect(top[0] == reinterpret_cast<BinSlot>(object), false)) return false;
    }
    top[1] = reinterpret_cast<BinSlot>(object);
    // A forked child may see the bin after any store of this thread (see ThreadSlot). It must not
    // see the new top before the new slot.
    std::atomic_signal_fence(std::memory_order_release);
    StoreWord<BinSlot*>(*this, top + 1);
    return true;
  }
};

struct Bins {
  // The state for a thread without a cache: all bins are both empty and full, and a sample is due.
  constexpr Bins() = default;

  // The bin of a class. The address is computed once, into one register: the processor forwards a
  // store in a bin to the next load without delay only if the addresses of both instructions have
  // no index register (decision 0047).
  static TC_FAST_PATH BinTop* At(const std::atomic<Bins*>& bins, ScaledClass c) {
    return Visible(AddLoaded(bins, static_cast<uintptr_t>(c), std::memory_order_acquire));
  }
  TC_FAST_PATH BinTop* Bin(ScaledClass c) {
    return Visible(reinterpret_cast<uintptr_t>(this) + static_cast<uintptr_t>(c));
  }

  void* Pop(SizeClass c) { return Bin(Scaled(c))->Pop(); }
  bool Push(SizeClass c, void* object) { return Bin(Scaled(c))->Push(object); }

  // The array is at offset 0, so the address of the bins plus the scaled class is the address of
  // the bin.
  std::array<BinTop, kNumSizeClasses> tops;
  // The fast path serves an allocation of at most this many bytes; for a larger one a sample is due
  // (see Countdown). The owning thread writes it. Other threads store 0 to send the owner to the
  // slow path, which has no effect if the owner allocates at that moment; and they read it to see
  // whether the owner is active.
  std::atomic<size_t> bytes_until_sample{0};

 private:
  // Makes the compiler compute the address in a register, instead of in each load and store.
  static TC_FAST_PATH BinTop* Visible(uintptr_t bin) {
    asm("" : "+r"(bin));
    return reinterpret_cast<BinTop*>(bin);
  }
};

static_assert(sizeof(BinTop) == sizeof(void*) && offsetof(Bins, tops) == 0);

// The bins of every thread without a cache: a thread that is not registered yet, that is exiting,
// whose cache is detached, or whose cache another thread has taken for a moment.
extern const Bins kEmptyBins;

}  // namespace tcmalloc
