// SPDX-License-Identifier: BSD-3-Clause
// ThreadCache: one thread's free objects, a bin per size class, and the slow paths of the owner:
// refill, overflow, flush.
//
// Role. Moves objects between the bins and the central cache. While it talks to the central cache,
// the page heap or the arena, the objects on their way are on the stack, the bins are consistent
// and `busy` is clear: a system call never delays a thread that wants to take the cache, and an
// allocation from a signal handler for SIGABRT finds good bins. Invariants
//   B1  arrays_[c] is null and bins.tops[c] is kNoBinArray, or arrays_[c] has
//   ArrayBytesFor(capacity_[c]) bytes, its slot 0
//       is null, slot capacity_[c] + 1 is kFullMark, and bins.tops[c] points to one of the slots 0
//       .. capacity_[c].
//   B2  Slots 1 .. top are free objects of the class; none is the mark.
// Synchronization. Everything but the links is touched inside an access section of the owner's
// slot. Links: the registry's lock. Cost. One refill or overflow per half a bin: a central lock and
// a few nanoseconds per object.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/size_classes.h"
#include "cache/bins.h"
#include "cache/thread_slot.h"
#include "central/central_cache.h"
#include "page/metadata_arena.h"

namespace tcmalloc {

class ThreadCache {
 public:
  // Allocations may pass this many bytes before the slow path has a look; stands for "no sampling".
  static constexpr uint64_t kNoSampling = uint64_t{1} << 62;

  // By the owner. `slot` is the owner's; the cache is not reachable through it until the caller
  // stores it there.
  ThreadCache(ThreadSlot& slot, CentralCache& central, MetadataArena& arena);
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

  // The owner's slow path of an allocation: an object of class `c`, null when the system gives no
  // memory.
  void* Allocate(SizeClass c);
  // The owner's slow path of a free.
  void Free(SizeClass c, void* object);

  // Moves all objects to the central cache; returns their bytes. By the owner.
  size_t Flush();

  // The same, and frees the arrays. The slot is not touched: the owner has left it, or is gone.
  void FlushAndFreeArrays();

  // Bytes of objects in the bins. Racy while the owner runs: each bin's figure is one that it had
  // at some moment, or 0.
  size_t CachedBytes() const;
  size_t CachedObjects(SizeClass c) const;
  // Bytes of the bins' arrays, as the arena counts them.
  size_t ArrayBytes() const;

  // An access section in which several objects or an array are moved. Returns what
  // ThreadSlot::BeginAccess returns. By the owner.
  Bins* BeginChange() {
    Bins* const bins = slot_->BeginAccess();
    changing_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return bins;
  }
  void EndChange() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    changing_.store(false, std::memory_order_relaxed);
    slot_->EndAccess();
  }
  // The owner is in such a section. Outside one the bins are consistent: single pushes and pops
  // take effect with one store. A forked child relies on it when it collects the caches of threads
  // that did not come along: what fork copies is a prefix of each thread's stores.
  bool changing() const { return changing_.load(std::memory_order_relaxed); }

  ThreadSlot& slot() { return *slot_; }
  const ThreadSlot& slot() const { return *slot_; }
  Bins* bins() { return &bins_; }
  // An address in the stack of the thread that created the cache.
  uintptr_t first_frame() const { return first_frame_; }

  // Aborts when B1 or B2 does not hold. By the owner, or when the owner is not running.
  void CheckInvariants() const;

  ListNode<ThreadCache> list_node;

 private:
  static size_t ArrayBytesFor(size_t capacity) {
    return MetadataArena::RoundedBytes((capacity + 2) * sizeof(BinSlot));
  }

  // Makes room for `capacity` objects; false when the arena has no memory. Outside access sections.
  bool Reserve(SizeClass c, size_t capacity);
  size_t Capacity(size_t i) const { return capacity_[i].load(std::memory_order_relaxed); }
  size_t CountLocked(SizeClass c) const {
    return static_cast<size_t>(bins_.tops[Index(c)].load(std::memory_order_relaxed) -
                               arrays_[Index(c)].load(std::memory_order_relaxed));
  }
  // Moves up to `n` of the oldest objects from the bin to the central cache; returns how many, 0
  // only when the bin is empty or taken.
  size_t ReturnOldest(SizeClass c, size_t n);
  // The same by giving the bin a new array with the objects that stay, so that many objects need no
  // room on the stack and the rest moves once; 0 also when the arena has no memory.
  size_t ExchangeArrayAndReturnOldest(SizeClass c, size_t n);
  // In pieces, so that the central lock is never held for long.
  void InsertPiecewise(SizeClass c, BinSlot* slots, size_t n);
  // Takes up to `n` of the oldest objects out of the bin.
  size_t TakeOldest(SizeClass c, void** objects, size_t n);

  Bins bins_;
  std::array<std::atomic<BinSlot*>, kNumSizeClasses> arrays_ = {};
  // Written by the owner (and whoever collects the cache behind it); read racily for statistics.
  std::array<std::atomic<uint16_t>, kNumSizeClasses> capacity_ = {};

  // Written by the owner; read by a forked child.
  std::atomic<bool> changing_{false};

  // Constant after construction.
  ThreadSlot* const slot_;
  const uintptr_t first_frame_;
  CentralCache& central_;
  MetadataArena& arena_;
};

// Above this the arena would round to twice as much.
static_assert(sizeof(ThreadCache) <= 2048);

}  // namespace tcmalloc
