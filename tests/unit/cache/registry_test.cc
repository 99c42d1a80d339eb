// SPDX-License-Identifier: BSD-3-Clause
#include "cache/registry.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "cache/cache_fixture.h"

namespace tcmalloc {
namespace {

constexpr size_t kSize = 1024;

class RegistryTest : public testing::Test {
 protected:
  // Leaves objects in the thread's cache; returns their number.
  size_t Fill(TestThread& thread) {
    std::vector<void*> objects;
    for (int i = 0; i < 5; ++i) objects.push_back(thread.Allocate(c_));
    for (void* const object : objects) thread.Free(c_, object);
    return thread.cache()->CachedObjects(c_);
  }
  void ExpectAllReturned() {
    heap_.central.FlushTransferCaches();
    EXPECT_EQ(heap_.AllObjects(c_), 0u);
    EXPECT_EQ(heap_.page_heap.GetStats().small_span_bytes, 0u);
    heap_.CheckInvariants();
  }
  // As a forked child does, where `survivor` is the only thread.
  void OrphanOthers(ThreadCache* survivor) {
    heap_.registry.lock().Lock();
    heap_.registry.OrphanOthersInChild(survivor);
    heap_.registry.lock().Unlock();
  }

  CacheTestHeap heap_;
  const SizeClass c_ = ClassForSize(kSize);
};

TEST_F(RegistryTest, CountsCachesAndTheirContents) {
  EXPECT_EQ(heap_.registry.GetTotals().caches, 0u);
  TestThread one(heap_.registry);
  TestThread two(heap_.registry);
  TestThread three(heap_.registry);
  size_t objects = Fill(one);
  objects += Fill(two);
  ASSERT_GT(objects, 0u);
  Registry::Totals totals = heap_.registry.GetTotals();
  EXPECT_EQ(totals.caches, 3u);
  EXPECT_EQ(totals.cached_bytes, objects * kSize);
  EXPECT_EQ(totals.array_bytes, one.cache()->ArrayBytes() + two.cache()->ArrayBytes());
  EXPECT_EQ(heap_.registry.CachedObjects(c_), objects);
  EXPECT_EQ(heap_.registry.CachedObjects(ClassForSize(8)), 0u);
  // From the middle of the list, then the ends.
  two.Exit();
  totals = heap_.registry.GetTotals();
  EXPECT_EQ(totals.caches, 2u);
  EXPECT_EQ(totals.cached_bytes, one.cache()->CachedBytes());
  three.Exit();
  one.Exit();
  totals = heap_.registry.GetTotals();
  EXPECT_EQ(totals.caches, 0u);
  EXPECT_EQ(totals.cached_bytes, 0u);
  EXPECT_EQ(totals.array_bytes, 0u);
  ExpectAllReturned();
}

TEST_F(RegistryTest, CreateWithoutMemory) {
  const size_t allocated = heap_.arena.allocated_bytes();
  heap_.vm.FailMaps(0);
  TestThread thread(heap_.registry);
  EXPECT_EQ(thread.cache(), nullptr);
  EXPECT_EQ(heap_.vm.failures(), 1u);
  EXPECT_EQ(heap_.registry.GetTotals().caches, 0u);
  EXPECT_EQ(heap_.arena.allocated_bytes(), allocated);
  heap_.vm.StopFailing();
  TestThread later(heap_.registry);
  EXPECT_NE(later.cache(), nullptr);
  later.Exit();
}

// A thread comes and goes for good: its memory serves the next one.
TEST_F(RegistryTest, ManyShortLivesTakeNoMoreMemoryThanOne) {
  for (int i = 0; i < 3; ++i) {
    TestThread thread(heap_.registry);
    Fill(thread);
    thread.Exit();
  }
  const size_t mapped = heap_.arena.mapped_bytes();
  const size_t allocated = heap_.arena.allocated_bytes();
  for (int i = 0; i < 1000; ++i) {
    TestThread thread(heap_.registry);
    Fill(thread);
    thread.Exit();
  }
  EXPECT_EQ(heap_.arena.mapped_bytes(), mapped);
  EXPECT_EQ(heap_.arena.allocated_bytes(), allocated);
  ExpectAllReturned();
}

TEST_F(RegistryTest, FindsSlotsStrictlyBetweenTwoAddresses) {
  EXPECT_FALSE(heap_.registry.HasSlotIn(0, UINTPTR_MAX));
  TestThread one(heap_.registry);
  TestThread two(heap_.registry);
  for (TestThread* thread : {&one, &two}) {
    const uintptr_t slot = reinterpret_cast<uintptr_t>(&thread->slot());
    EXPECT_TRUE(heap_.registry.HasSlotIn(slot - 1, slot + 1));
    EXPECT_FALSE(heap_.registry.HasSlotIn(slot, slot + 1));
    EXPECT_FALSE(heap_.registry.HasSlotIn(slot - 1, slot));
  }
  EXPECT_TRUE(heap_.registry.HasSlotIn(0, UINTPTR_MAX));
  const uintptr_t gone = reinterpret_cast<uintptr_t>(&one.slot());
  one.Exit();
  EXPECT_FALSE(heap_.registry.HasSlotIn(gone - 1, gone + 1));
  two.Exit();
}

TEST_F(RegistryTest, OrphansAreAdoptedOneByOne) {
  EXPECT_FALSE(heap_.registry.AdoptOrphan());
  TestThread survivor(heap_.registry);
  TestThread one(heap_.registry);
  TestThread two(heap_.registry);
  const size_t own = Fill(survivor);
  const size_t of_one = Fill(one);
  const size_t of_two = Fill(two);
  // One of them was in the middle of a single push: its bin is good.
  two.slot().BeginAccess(ThreadSlot::kFast);
  OrphanOthers(survivor.cache());
  // Still counted, but their threads' slots are no longer looked at.
  EXPECT_EQ(heap_.registry.GetTotals().caches, 3u);
  EXPECT_EQ(heap_.registry.CachedObjects(c_), own + of_one + of_two);
  const uintptr_t gone = reinterpret_cast<uintptr_t>(&one.slot());
  EXPECT_FALSE(heap_.registry.HasSlotIn(gone - 1, gone + 1));

  heap_.registry.AdoptOrphanIfAny();
  EXPECT_EQ(heap_.registry.GetTotals().caches, 2u);
  EXPECT_TRUE(heap_.registry.AdoptOrphan());
  EXPECT_FALSE(heap_.registry.AdoptOrphan());
  heap_.registry.AdoptOrphanIfAny();
  EXPECT_EQ(heap_.registry.GetTotals().caches, 1u);
  EXPECT_EQ(heap_.registry.CachedObjects(c_), own);
  EXPECT_TRUE(heap_.Conserved(c_, 0));
  survivor.Exit();
  ExpectAllReturned();
}

TEST_F(RegistryTest, WithoutASurvivorAllAreOrphans) {
  TestThread one(heap_.registry);
  TestThread two(heap_.registry);
  Fill(one);
  Fill(two);
  OrphanOthers(nullptr);
  heap_.registry.AdoptOrphans();
  EXPECT_EQ(heap_.registry.GetTotals().caches, 0u);
  EXPECT_FALSE(heap_.registry.AdoptOrphan());
  ExpectAllReturned();
}

// A thread that was moving several objects at the moment of the fork left bins that nobody may trust.
TEST_F(RegistryTest, ACacheInTheMiddleOfAChangeIsGivenUp) {
  TestThread survivor(heap_.registry);
  TestThread changing(heap_.registry);
  const size_t own = Fill(survivor);
  const size_t lost = Fill(changing);
  const size_t objects_before = heap_.CentralObjects(c_);
  changing.slot().BeginAccess(ThreadSlot::kChanging);
  OrphanOthers(survivor.cache());
  EXPECT_EQ(heap_.registry.GetTotals().caches, 1u);
  EXPECT_FALSE(heap_.registry.AdoptOrphan());
  EXPECT_EQ(heap_.registry.CachedObjects(c_), own);
  EXPECT_EQ(heap_.CentralObjects(c_), objects_before);
  EXPECT_TRUE(heap_.Conserved(c_, lost));
  survivor.Exit();
  heap_.central.FlushTransferCaches();
  EXPECT_TRUE(heap_.Conserved(c_, lost));
  heap_.CheckInvariants();
}

// The next allocation of the survivor finds the orphans' objects in the central cache.
TEST_F(RegistryTest, WhatOrphansHeldIsUsedAgain) {
  TestThread survivor(heap_.registry);
  std::vector<std::unique_ptr<TestThread>> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(std::make_unique<TestThread>(heap_.registry));
    Fill(*others.back());
  }
  OrphanOthers(survivor.cache());
  for (int i = 0; i < 20; ++i) heap_.registry.AdoptOrphanIfAny();
  EXPECT_EQ(heap_.registry.GetTotals().caches, 1u);
  EXPECT_TRUE(heap_.Conserved(c_, 0));
  survivor.Exit();
  ExpectAllReturned();
}

// Threads come and go while another one looks.
TEST_F(RegistryTest, ManyThreads) {
  constexpr size_t kThreads = 8;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      Random random(t);
      for (int life = 0; life < 30; ++life) {
        TestThread thread(heap_.registry);
        std::vector<void*> held;
        for (int step = 0; step < 100; ++step) {
          if (held.empty() || random.OneIn(2)) {
            held.push_back(thread.Allocate(c_));
            *static_cast<size_t*>(held.back()) = t;
          } else {
            ASSERT_EQ(*static_cast<size_t*>(held.back()), t);
            thread.Free(c_, held.back());
            held.pop_back();
          }
        }
        for (void* const object : held) thread.Free(c_, object);
        ASSERT_TRUE(heap_.registry.HasSlotIn(0, UINTPTR_MAX));
        thread.Exit();
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    ASSERT_LE(heap_.registry.GetTotals().caches, kThreads);
    ASSERT_LE(heap_.registry.CachedObjects(c_), kThreads * 2046);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(heap_.registry.GetTotals().caches, 0u);
  ExpectAllReturned();
}

}  // namespace
}  // namespace tcmalloc
