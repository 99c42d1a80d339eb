// SPDX-License-Identifier: BSD-3-Clause
// ThreadSlot: a thread's few words of thread-local storage, and the protocol by which another
// thread takes the thread's cache although the owner takes no lock.
//
// The protocol (an asymmetric lock). The owner stores `busy`, loads `bins`, works on what it found,
// and clears `busy` with a release store. Another thread that wants the cache (one at a time, under
// the registry's lock)
//   1. replaces the owner's `bins` by kEmptyBins,
//   2. calls membarrier(PRIVATE_EXPEDITED): every thread of the process executes a full barrier,
//   3. reads `busy` (acquire).
// Property: if it reads 0, it has the cache until it stores the pointer back (release).
// Argument. Take any access section of the owner: B (store busy = 1), L (load bins), work, E (store
// busy = 0, release). The membarrier puts a full barrier M into the owner's program order. If M
// comes before L, L is performed after step 1 is visible and loads kEmptyBins: the section does not
// touch the cache. Otherwise L is before M, and so is B, which precedes L in program order. Hence B
// is visible to step 3, which reads 1 unless E, too, has become visible. In that case the acquire
// in step 3 orders all the section's work before the taker's. If step 3 reads 1, the taker puts the
// pointer back and asks the owner to do the work itself; it never waits. The owner loads the
// pointer with acquire so that, after it was put back, the owner sees what the taker did. The fast
// path needs no acquire for that, since all that it reads lies at addresses computed from the
// pointer (LoadAddress). ThreadCache::Section needs it, since it only compares the pointer. The
// signal fence keeps the compiler from moving L before B. The processor may do so, since the fast
// path has no barrier; M makes up for that.
//
// A forked child never reads the slot of a thread that exists only in the parent: the memory may be
// gone.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "thread_cache/bins.h"

namespace tcmalloc {

class ThreadCache;

struct ThreadSlot {
  enum Busy : uint8_t { kIdle = 0, kBusy = 1 };

  enum class Phase : uint8_t {
    kNew,          // has not needed a cache yet
    kRegistering,  // is getting a cache; allocations meanwhile use none
    kRegistered,
    kFinished,  // had a cache and is exiting, or must not have one: never asks again
  };

  TC_FAST_PATH Bins* BeginAccess() {
    SetBusy();
    return bins.load(std::memory_order_acquire);
  }
  // For a section that reaches the cache only through the returned address (see LoadAddress).
  TC_FAST_PATH Bins* BeginFastAccess() {
    SetBusy();
    return LoadAddress(bins);
  }
  // For a section that needs only the bin of class `c`.
  TC_FAST_PATH BinTop* BeginFastAccess(ScaledClass c) {
    SetBusy();
    return Bins::At(bins, c);
  }
  TC_FAST_PATH void EndAccess() { busy.store(kIdle, std::memory_order_release); }

  // `busy` is the first member on ARM, where a release store takes no offset.
  TC_FIRST_ON_ARM(
      // Written by the owner; read by a thread that takes the cache.
      std::atomic<uint8_t> busy{kIdle};
      // Owner only.
      Phase phase = Phase::kNew;
      // Owner only: slow frees without a cache so far (see CacheForFree).
      uint8_t frees_without_cache : 7 = 0;
      // Owner only: the thread is among those that process/background_thread.h counts.
      uint8_t is_counted : 1 = 0;
      // Owner only: one bit for each nested hold of the heap by this thread, the innermost in the
      // lowest bit. The bit is set if that hold took no locks (see HoldHeap).
      uint8_t empty_holds = 0;
      // Owner only: the lower half of the address of the mark in the frame of the function that
      // runs the program's callback; 0 if there is none. The address may dangle (see
      // process/current_thread.h).
      uint32_t callback = 0;
      ,
      // Points to kEmptyBins or to the bins of the owner's cache, nothing else, so a taker notices
      // when the memory has become another thread's slot. Written, with the registry's lock held,
      // by the owner and by a thread that takes the cache.
      std::atomic<Bins*> bins{const_cast<Bins*>(&kEmptyBins)};
      // Owner only.
      ThreadCache* cache = nullptr;)

 private:
  TC_FAST_PATH void SetBusy() {
    busy.store(kBusy, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
};

// Static thread-local storage is scarce for libraries that are loaded late.
static_assert(sizeof(ThreadSlot) <= 24);

}  // namespace tcmalloc
