// SPDX-License-Identifier: BSD-3-Clause
// A thread cache on a separate heap, which tests use as the entry points do.
#pragma once

#include <cstddef>
#include <vector>

#include "os/processor.h"
#include "testing/heap_fixture.h"
#include "thread_cache/bin_policy.h"
#include "thread_cache/registry.h"
#include "thread_cache/thread_cache.h"
#include "thread_cache/thread_slot.h"

namespace tcmalloc {

// A thread's slot and cache. The slot belongs to this object and not to the running thread, so a
// test may have several.
class TestThread {
 public:
  explicit TestThread(Registry& registry) : registry_(registry), cache_(registry.Create(slot_)) {}
  TestThread(const TestThread&) = delete;
  TestThread& operator=(const TestThread&) = delete;

  // Allocates as malloc does: first on the fast path, then on the slow path.
  void* Allocate(SizeClass c) {
    Bins* const bins = slot_.BeginAccess();
    const size_t left = bins->bytes_until_sample.load(std::memory_order_relaxed);
    const size_t size = kSizeClasses.size(c);
    void* const object = left < size ? nullptr : bins->Pop(c);
    if (object != nullptr) {
      bins->bytes_until_sample.store(left - size, std::memory_order_relaxed);
    }
    slot_.EndAccess();
    return object != nullptr ? object : cache_->Allocate(c);
  }
  void Free(SizeClass c, void* object) {
    const bool pushed = slot_.BeginAccess()->Push(c, object);
    slot_.EndAccess();
    if (!pushed) cache_->Free(c, object);
  }

  // Allocates `n` objects and frees them in the same order.
  void Use(SizeClass c, int n) {
    std::vector<void*> objects;
    for (int i = 0; i < n; ++i) objects.push_back(Allocate(c));
    for (void* const object : objects) Free(c, object);
  }

  // Lets the cache grow to at least `bytes`, while the registry has budget for it.
  void RaiseLimitTo(size_t bytes) {
    while (cache_->max_bytes() < bytes) registry_.RaiseLimit(cache_);
  }

  // Uses the class until the next allocation makes a bin for it.
  void EarnBin(SizeClass c) {
    for (int i = 0; i < bin_policy::UsesWithoutBin(c); i += 2) Free(c, Allocate(c));
  }

  // Take detaches the cache as another thread would do, PutBack reattaches it.
  void Take() { slot_.bins.store(const_cast<Bins*>(&kEmptyBins), std::memory_order_release); }
  void PutBack() { slot_.bins.store(&cache_->table().bins(), std::memory_order_release); }

  // Does what happens at the end of a thread.
  void Exit() {
    slot_.cache = nullptr;
    registry_.Destroy(cache_);
    cache_ = nullptr;
  }

  ThreadCache* cache() { return cache_; }
  BinTable& table() { return cache_->table(); }
  size_t CachedBytes() { return table().CachedBytes(); }
  size_t CachedObjects(SizeClass c) { return table().CachedObjects(c); }
  ThreadSlot& slot() { return slot_; }

 private:
  Registry& registry_;
  ThreadSlot slot_;
  ThreadCache* cache_;
};

struct CacheTestHeap : TestHeap {
  explicit CacheTestHeap(size_t hardware_page_size = 4096)
      : TestHeap(hardware_page_size), registry(central, arena, &IssueBarrier) {}

  // True if every object of class `c` is in exactly one place. The program has `held` of them.
  bool Conserved(SizeClass c, size_t held) {
    return CentralObjects(c) + CachedObjects(registry, c) + held == AllObjects(c);
  }

  static bool IssueBarrier() {
    static Membarrier membarrier;
    return membarrier.Issue();
  }

  Registry registry;
};

}  // namespace tcmalloc
