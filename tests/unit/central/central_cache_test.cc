// SPDX-License-Identifier: BSD-3-Clause
#include "central/central_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "testing/heap_fixture.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

std::vector<void*> Remove(CentralCache& central, SizeClass c, size_t n) {
  std::vector<void*> objects(n);
  objects.resize(central.Remove(c, objects.data(), n));
  return objects;
}

// Exactly `n` objects, in as many calls as it takes.
std::vector<void*> RemoveAll(CentralCache& central, SizeClass c, size_t n) {
  std::vector<void*> objects;
  while (objects.size() < n) {
    const std::vector<void*> some = Remove(central, c, n - objects.size());
    if (some.empty()) break;
    objects.insert(objects.end(), some.begin(), some.end());
  }
  return objects;
}

TEST(CentralCacheTest, WholeBatchesGoThroughTheTransferCacheAndTheRestToTheList) {
  TestHeap heap;
  const SizeClass c = ClassForSize(512);
  const size_t batch = kSizeClasses.batch_size(c);
  TransferCache& transfer = heap.central.transfer_cache(c);
  CentralFreeList& list = heap.central.free_list(c);
  const std::vector<void*> objects = RemoveAll(heap.central, c, 2 * batch + batch / 2);
  ASSERT_EQ(objects.size(), 2 * batch + batch / 2);
  ASSERT_EQ(transfer.objects(), 0u);
  // Keeps the last span from going back to the page heap.
  const std::vector<void*> kept = Remove(heap.central, c, 1);
  const size_t free_before = list.free_objects();

  heap.central.Insert(c, objects.data(), objects.size());
  EXPECT_EQ(transfer.objects(), 2 * batch);
  EXPECT_EQ(list.free_objects(), free_before + batch / 2);

  // Less than a batch comes from the list, a batch from the transfer cache: the one that came last.
  const std::vector<void*> few = Remove(heap.central, c, batch - 1);
  EXPECT_EQ(transfer.objects(), 2 * batch);
  const std::vector<void*> one = Remove(heap.central, c, batch);
  EXPECT_EQ(transfer.objects(), batch);
  EXPECT_EQ(one, std::vector<void*>(objects.begin() + static_cast<ptrdiff_t>(batch),
                                    objects.begin() + static_cast<ptrdiff_t>(2 * batch)));
  // More than it has: what it has is enough.
  const std::vector<void*> more = Remove(heap.central, c, 3 * batch);
  EXPECT_EQ(more,
            std::vector<void*>(objects.begin(), objects.begin() + static_cast<ptrdiff_t>(batch)));
  EXPECT_EQ(transfer.objects(), 0u);

  for (const auto& each : {kept, few, one, more}) heap.central.Insert(c, each.data(), each.size());
  heap.central.FlushTransferCaches();
  EXPECT_EQ(list.num_spans(), 0u);
  heap.CheckInvariants();
}

TEST(CentralCacheTest, WhatTheTransferCacheCannotTakeGoesToTheList) {
  TestHeap heap;
  const SizeClass c = ClassForSize(8192);
  const size_t batch = kSizeClasses.batch_size(c);
  const size_t room = TransferCache::kMaxBytes / (batch * 8192) * batch;
  const std::vector<void*> objects = RemoveAll(heap.central, c, room + 3 * batch);
  ASSERT_EQ(objects.size(), room + 3 * batch);
  heap.central.Insert(c, objects.data(), objects.size());
  EXPECT_EQ(heap.central.transfer_cache(c).objects(), room);
  heap.central.free_list(c).CheckInvariants();
  EXPECT_EQ(heap.CentralObjects(c), heap.AllObjects(c));
  EXPECT_EQ(heap.central.FlushTransferCaches(), room * 8192);
  EXPECT_EQ(heap.central.free_list(c).num_spans(), 0u);
}

// Without memory for the transfer cache's array everything goes to the list.
TEST(CentralCacheTest, WithoutMemoryForTheArray) {
  TestHeap heap;
  const SizeClass c = ClassForSize(8);
  const std::vector<void*> objects = RemoveAll(heap.central, c, 4 * kMaxBatchSize);
  std::vector<void*> arena_memory;
  while (void* const memory = heap.arena.AllocateWithoutGrowing(16)) arena_memory.push_back(memory);
  heap.vm.FailMap(1, FakeVirtualMemory::kForever);
  heap.central.Insert(c, objects.data(), objects.size());
  EXPECT_GT(heap.vm.map_failures(), 0u);
  EXPECT_EQ(heap.central.transfer_cache(c).objects(), 0u);
  EXPECT_EQ(heap.central.free_list(c).num_spans(), 0u);
  heap.CheckInvariants();
}

TEST(CentralCacheTest, FlushReturnsTheBytesAndLeavesNothing) {
  TestHeap heap;
  EXPECT_EQ(heap.central.FlushTransferCaches(), 0u);
  size_t expected = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    const size_t n = (1 + i % 3) * kSizeClasses.batch_size(c);
    const std::vector<void*> objects = RemoveAll(heap.central, c, n);
    ASSERT_EQ(objects.size(), n);
    heap.central.Insert(c, objects.data(), n);
    expected += heap.central.transfer_cache(c).objects() * kSizeClasses.size(c);
  }
  ASSERT_GT(expected, 0u);
  EXPECT_EQ(heap.central.FlushTransferCaches(), expected);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    EXPECT_EQ(heap.central.transfer_cache(static_cast<SizeClass>(i)).objects(), 0u);
    EXPECT_EQ(heap.central.free_list(static_cast<SizeClass>(i)).num_spans(), 0u);
  }
  EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
  EXPECT_EQ(heap.central.FlushTransferCaches(), 0u);
  heap.CheckInvariants();
}

// Threads remove, write their name into what they got, hand some to each other and return the rest,
// while others flush.
TEST(CentralCacheTest, ManyThreads) {
  constexpr size_t kThreads = 8;
  constexpr int kSteps = 400;
  const SizeClass classes[] = {ClassForSize(8), ClassForSize(64), ClassForSize(1024),
                               ClassForSize(8192), ClassForSize(kMaxSmallSize)};
  struct Held {
    SizeClass c;
    void* object;
  };
  TestHeap heap;
  std::mutex mutex;
  std::vector<Held> passed_on;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(4711 + t);
      std::vector<Held> held;
      for (int step = 0; step < kSteps; ++step) {
        const SizeClass c = classes[random.Below(std::size(classes))];
        switch (random.Below(8)) {
          case 0:
          case 1:
          case 2: {
            const size_t n = random.Between(1, kSizeClasses.batch_size(c) + 3);
            for (void* const object : Remove(heap.central, c, n)) {
              *static_cast<size_t*>(object) = reinterpret_cast<uintptr_t>(object) ^ t;
              held.push_back({c, object});
            }
            break;
          }
          case 3: {
            const std::lock_guard<std::mutex> guard(mutex);
            for (size_t i = 0; i < 20 && !held.empty(); ++i) {
              *static_cast<size_t*>(held.back().object) ^= t;
              passed_on.push_back(held.back());
              held.pop_back();
            }
            break;
          }
          case 4: {
            const std::lock_guard<std::mutex> guard(mutex);
            for (size_t i = 0; i < 20 && !passed_on.empty(); ++i) {
              *static_cast<size_t*>(passed_on.back().object) ^= t;
              held.push_back(passed_on.back());
              passed_on.pop_back();
            }
            break;
          }
          case 5:
            if (random.OneIn(8)) heap.central.FlushTransferCaches();
            break;
          default: {
            std::vector<void*> objects;
            std::vector<Held> kept;
            for (const Held& h : held) {
              if (h.c != c) {
                kept.push_back(h);
                continue;
              }
              ASSERT_EQ(*static_cast<size_t*>(h.object), reinterpret_cast<uintptr_t>(h.object) ^ t);
              objects.push_back(h.object);
            }
            held.swap(kept);
            if (!objects.empty()) heap.central.Insert(c, objects.data(), objects.size());
          }
        }
      }
      for (const Held& h : held) heap.central.Insert(h.c, &h.object, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Held& h : passed_on) heap.central.Insert(h.c, &h.object, 1);
  for (const SizeClass c : classes) EXPECT_EQ(heap.CentralObjects(c), heap.AllObjects(c));
  heap.central.FlushTransferCaches();
  for (const SizeClass c : classes) EXPECT_EQ(heap.central.free_list(c).num_spans(), 0u);
  heap.CheckInvariants();
  EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
}

}  // namespace
}  // namespace tcmalloc
