// SPDX-License-Identifier: BSD-3-Clause
// ThreadCache: one thread's free objects, a bin per size class, and the slow paths of the owner:
// refill, overflow, garbage collection, flush.
//
// Role. Moves objects between the bins and the central cache. While it talks to the central cache,
// the page heap or the arena, the objects on their way are on the stack, the bins are consistent
// and `busy` is clear: a system call never delays a thread that wants to take the cache, and an
// allocation from a signal handler for SIGABRT finds good bins.
//
// Size. What the cache may come to hold is what its bins' limits allow plus the memory of their
// arrays: claimed_bytes(). It is kept below max_bytes() by refusing growth; a refusal is the moment
// for a garbage collection, which makes room where bins hold more than they use and asks the
// registry for a larger max_bytes().
//
// The low-water probe. The least that a bin held since the last collection would cost the fast path
// a comparison. Instead a collection puts a null on top of the bin's objects: Pop takes it for the
// bottom, the slow path sees what it is and lowers it to half the depth. Where the null is at the
// next collection, that many objects were not needed: the low-water mark, at most by half too
// small.
//
// Invariants
//   B1  arrays_[c] is null and bins.tops[c] is kNoBinArray, or slot 0 of the array is null, slot
//       limit + 1 is kFullMark and no other is, limit <= capacity, and bins.tops[c] points to one
//       of the slots 0 .. limit.
//   B2  Slots 1 .. top are free objects of the class, except the slot probes_[c], which is null,
//       when that is not 0.
//   B3  claimed_bytes() is the sum over the arrays of limit * object size + bytes();
//       array_bytes() of bytes() alone.
// Synchronization. Everything but the links is touched inside an access section of the owner's
// slot, by the owner, or by a thread that has taken the cache (registry.h). What is read in one
// section may be gone in the next: another thread may have emptied the cache between the two.
// Links and max_bytes: the registry's lock. Cost. One refill or overflow per batch: a central lock
// and a few nanoseconds per object.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/intrusive_list.h"
#include "base/sample_gap.h"
#include "base/size_classes.h"
#include "cache/bin_array.h"
#include "cache/bins.h"
#include "cache/countdown.h"
#include "cache/thread_slot.h"
#include "central/central_cache.h"
#include "page/metadata_arena.h"

namespace tcmalloc {

class Registry;

class ThreadCache {
 public:
  // By the owner. `slot` is the owner's; the cache is not reachable through it until the registry
  // stores it there.
  ThreadCache(ThreadSlot& slot, CentralCache& central, MetadataArena& arena, Registry& registry);
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

  // The owner's slow path of an allocation: an object of class `c`, null when the system gives no
  // memory.
  void* Allocate(SizeClass c);
  // The owner's slow path of a free.
  void Free(SizeClass c, void* object);
  // The same past the bin: to the central cache.
  void FreePast(SizeClass c, void* object);

  // Moves all objects to the central cache and frees the arrays; returns the objects' bytes. By the
  // owner.
  size_t Flush();

  // The cache, which a thread that ended has left as it was, goes to the calling thread. Requires:
  // it is not registered.
  void HandTo(ThreadSlot& slot);

  // Takes all arrays out of the bins and puts them in front of `arrays`. Requires: the caller has
  // the cache, or the owner is gone.
  void DetachArrays(BinArraysInFlight* arrays);
  // Moves the objects of a chain to the central cache and frees its arrays; returns the objects'
  // bytes. No lock may be held.
  static size_t ReturnDetached(BinArraysInFlight* arrays, CentralCache& central,
                               MetadataArena& arena);

  // Gives back what the bins did not use since the last collection, and asks for a larger
  // max_bytes(). The bin of class `except` stays as it is. By the owner. Cost: a few microseconds
  // at most, plus what moves.
  void CollectGarbage(SizeClass except = SizeClass::kNone);

  // The owner shall flush at its next slow path. Thread safety: any.
  void RequestFlush() { flush_requested_.store(true, std::memory_order_relaxed); }

  // The owner cannot reach the cache, and does without (Registry::UpdateBypass). Written with the
  // registry's lock held; to the owner, who reads it without, a hint that there is something to ask
  // for.
  bool withheld() const { return withheld_.load(std::memory_order_relaxed); }
  void set_withheld(bool withheld) { withheld_.store(withheld, std::memory_order_relaxed); }

  // Bytes of objects in the bins. Racy while the owner runs: each bin's figure is one that it had
  // at some moment (give or take one object), or 0 when its array was exchanged just then.
  size_t CachedBytes() const;
  size_t CachedObjects(SizeClass c) const;
  // Calls f(class, what is in it, how far above the bin's top it is) for every slot of every bin
  // that holds an address: 0 and less for the objects in the bin, more for what lies above. While
  // changing() the tops mean nothing. By the owner, or when the owner is not running.
  template <typename F>
  void ForEachSlot(F f) const {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const BinArray* const array = Array(i);
      if (array == nullptr) continue;
      const BinSlot* const slots = array->slots();
      const BinSlot* const top = bins_.tops[i].load(std::memory_order_relaxed);
      for (size_t slot = 1; slot <= array->capacity; ++slot) {
        if (slots[slot] == 0 || slots[slot] == kFullMark) continue;
        f(static_cast<SizeClass>(i), slots[slot], slots + slot - top);
      }
    }
  }
  // Bytes of the bins' arrays, as the arena counts them.
  size_t array_bytes() const { return array_bytes_.value(); }
  // What the bins' limits allow, and the arrays.
  size_t claimed_bytes() const { return claimed_bytes_.value(); }
  size_t max_bytes() const { return max_bytes_.load(std::memory_order_relaxed); }
  // A number that changes when the bins do (but for coincidences). Racy.
  uint64_t ActivityStamp() const;

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

  // Aborts when an invariant does not hold. By the owner, or when the owner is not running.
  void CheckInvariants() const;

  ListNode<ThreadCache> list_node;

  // What the registry knows about the cache, with its lock held; max_bytes is read by the owner
  // without.
  struct RegistryRecord {
    uint64_t activity_stamp = 0;
    int64_t stamped_at_ms = 0;
    uint64_t flush_round = 0;
  };
  RegistryRecord record;
  void SetMaxBytes(size_t bytes) { max_bytes_.store(bytes, std::memory_order_relaxed); }

  // Draws the gaps between the thread's samples (see runtime/sampling.h). Owner only.
  SampleGaps gaps{0};
  // See Countdown. By the owner but for Alarm.
  void SetSample(size_t bytes, uint32_t generation) {
    countdown_.SetSample(bins_.bytes_until_sample, bytes, generation);
  }
  uint32_t sample_generation() const { return countdown_.generation(); }
  Countdown::Due CountAllocation(size_t bytes) {
    return countdown_.Count(bins_.bytes_until_sample, bytes);
  }
  void Alarm() { countdown_.Alarm(bins_.bytes_until_sample); }

 private:
  // An access section that may change several things. False when another thread has the cache.
  class Section {
   public:
    explicit Section(ThreadCache& cache)
        : cache_(cache), mine_(cache.BeginChange() == &cache.bins_) {}
    ~Section() { cache_.EndChange(); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
    explicit operator bool() const { return mine_; }

   private:
    ThreadCache& cache_;
    const bool mine_;
  };

  enum class Fit : uint8_t { kDone, kTaken, kOverBudget, kNeedsArray };

  // Those whose names say that they are in a section are called by whoever has the cache.
  BinArray* Array(size_t i) const { return arrays_[i].load(std::memory_order_relaxed); }
  size_t Probe(size_t i) const { return probes_[i].load(std::memory_order_relaxed); }
  void SetProbe(size_t i, size_t slot) {
    probes_[i].store(static_cast<uint16_t>(slot), std::memory_order_relaxed);
  }
  // The bin's top as the number of its slot. Requires: it has an array.
  size_t Top(size_t i) const {
    return static_cast<size_t>(bins_.tops[i].load(std::memory_order_relaxed) - Array(i)->slots());
  }
  void SetTop(size_t i, size_t slot) {
    bins_.tops[i].store(Array(i)->slots() + slot, std::memory_order_relaxed);
  }
  size_t CountInSection(size_t i) const {
    return Array(i) == nullptr ? 0 : Top(i) - (Probe(i) != 0);
  }
  // What tells a second free of an object that was freed last.
  bool IsNewestInSection(size_t i, const void* object) const {
    return *bins_.tops[i].load(std::memory_order_relaxed) == reinterpret_cast<BinSlot>(object);
  }
  void PlaceProbeInSection(size_t i);
  // When the top is at the probe: moves it to half the depth, or takes it away.
  void LowerProbeInSection(size_t i);
  void RemoveProbeInSection(size_t i);
  void SetLimitInSection(size_t i, size_t limit);
  void InstallInSection(size_t i, BinArray* array);
  void RemoveArrayInSection(size_t i);
  // Takes up to `n` of the oldest objects out of the bin.
  size_t TakeOldestInSection(size_t i, void** objects, size_t n);
  // `n` objects of the bin go to the central cache: counts them, and says whose they are.
  Origin GivenBackInSection(SizeClass c, size_t n);

  // A new array for bin `i`, empty, with the given limit and room for at least `capacity` objects;
  // null when the arena has no memory.
  BinArray* NewArray(size_t i, size_t limit, size_t capacity);
  // Sets the limit if the claim fits and it still is `old_limit` (else the cache was taken
  // meanwhile, and the decision is void). `*spare` is an array to use if the present one is too
  // small; it is exchanged for that.
  Fit TrySetLimit(size_t i, size_t old_limit, size_t limit, BinArray** spare);
  // The same with all that it needs; false when the bin stays as it is.
  bool SetLimit(SizeClass c, size_t old_limit, size_t limit);
  // Moves up to `n` of the oldest objects from the bin to the central cache; returns how many.
  TC_OUT_OF_LINE size_t ReturnOldest(SizeClass c, size_t n);
  // The same by giving the bin a new array with the objects that stay, so that many objects need no
  // room on the stack and the rest moves once; 0 also when the arena has no memory.
  size_t ExchangeArrayAndReturnOldest(SizeClass c, size_t n);
  // Fetches `n` objects, of which it returns one and puts the others into the bin; null when there
  // is no memory. A function of its own: its array on the stack shall not be there while Allocate
  // collects garbage.
  TC_OUT_OF_LINE void* Refill(SizeClass c, size_t n);
  // Puts up to `n` fetched objects into the bin so that the first comes out first; returns how many
  // of the last ones did not fit.
  size_t PushFetched(SizeClass c, void* const* objects, size_t n);
  bool PushOne(SizeClass c, void* object);
  bool CollectionIsDue() const { return traffic_bytes_ >= max_bytes(); }
  void CollectFrom(SizeClass c);
  TC_SLOW_PATH void FlushAsAsked();

  Bins bins_;
  Countdown countdown_;
  std::array<std::atomic<BinArray*>, kNumSizeClasses> arrays_ = {};
  // The slots of the low-water probes; 0: none.
  std::array<std::atomic<uint16_t>, kNumSizeClasses> probes_ = {};
  // Uses of a class that has no array yet: see bin_policy::FreesWithoutBin.
  std::array<uint8_t, kNumSizeClasses> uses_without_bin_ = {};
  // Written by whoever has the cache; read racily for statistics.
  OwnedCounter claimed_bytes_;
  OwnedCounter array_bytes_;

  // Written with the registry's lock, read by the owner. Nothing hangs on its order.
  std::atomic<size_t> max_bytes_{0};
  // Owner only: bytes that moved between the bins and the central cache since the last collection.
  size_t traffic_bytes_ = 0;

  // Written by the owner; read by a forked child.
  std::atomic<bool> changing_{false};
  // Set by anyone, cleared by the owner. A request that the owner sees late is one that came late.
  std::atomic<bool> flush_requested_{false};
  std::atomic<bool> withheld_{false};

  // Constant while the cache is registered.
  ThreadSlot* slot_;
  uintptr_t first_frame_;

  // Constant after construction.
  CentralCache& central_;
  MetadataArena& arena_;
  Registry& registry_;
};

// Above this the arena would round to twice as much.
static_assert(sizeof(ThreadCache) <= 2048);

}  // namespace tcmalloc
