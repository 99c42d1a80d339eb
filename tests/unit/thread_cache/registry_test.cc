// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/registry.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "page_heap/retention.h"
#include "testing/run_threads.h"
#include "thread_cache/bin_policy.h"
#include "thread_cache/cache_budget.h"
#include "thread_cache/cache_fixture.h"

namespace tcmalloc {
namespace {

constexpr size_t kSize = 1024;

class RegistryTest : public testing::Test {
 protected:
  // Leaves objects in the thread's cache; returns their number.
  size_t Fill(TestThread& thread) {
    thread.Use(c_, 5);
    return thread.CachedObjects(c_);
  }
  size_t NumCaches(const Shard& shard) { return heap_.central.shards().num_caches(shard); }
  void ExpectAllReturned() {
    EXPECT_EQ(heap_.AllObjects(c_), 0u);
    EXPECT_EQ(heap_.page_heap.GetStats().small_span_bytes, 0u);
    heap_.CheckInvariants();
  }
  // Does what a forked child does in which `survivor` is the only thread.
  void OrphanOthers(ThreadCache* survivor) {
    heap_.registry.lock().Lock();
    heap_.registry.OrphanOthersInChild(survivor == nullptr ? nullptr : &survivor->slot());
    heap_.registry.lock().Unlock();
  }

  CacheTestHeap heap_;
  const SizeClass c_ = ClassForSize(kSize);
};

TEST_F(RegistryTest, CountsCachesAndTheirContents) {
  EXPECT_EQ(TotalsOf(heap_.registry).caches, 0u);
  TestThread one(heap_.registry);
  TestThread two(heap_.registry);
  TestThread three(heap_.registry);
  const size_t objects = Fill(one) + Fill(two);
  {
    // A reader of these figures does not wait for the lock.
    const SpinLockHolder holder(heap_.registry.lock());
    const RegistryTotals totals = TotalsOf(heap_.registry);
    EXPECT_EQ(totals.caches, 3u);
    EXPECT_EQ(HeldCaches(heap_.registry), 3u);
    EXPECT_EQ(totals.cached_bytes, objects * kSize);
    EXPECT_EQ(totals.array_bytes, one.table().array_bytes() + two.table().array_bytes());
    EXPECT_EQ(CachedObjects(heap_.registry, c_), objects);
    EXPECT_EQ(CachedObjects(heap_.registry, ClassForSize(8)), 0u);
  }
  // Removes a cache from the middle of the list, then those at the ends.
  two.Exit();
  EXPECT_EQ(TotalsOf(heap_.registry).caches, 2u);
  EXPECT_EQ(TotalsOf(heap_.registry).cached_bytes, one.CachedBytes());
  three.Exit();
  one.Exit();
  const RegistryTotals totals = TotalsOf(heap_.registry);
  EXPECT_EQ(totals.caches + totals.cached_bytes + totals.array_bytes, 0u);
  ExpectAllReturned();
}

TEST_F(RegistryTest, CreateWithoutMemory) {
  const size_t allocated = heap_.arena.allocated_bytes();
  heap_.vm.FailMap(1, FakeVirtualMemory::kForever);
  TestThread thread(heap_.registry);
  EXPECT_EQ(thread.cache(), nullptr);
  EXPECT_EQ(heap_.vm.map_failures(), 1u);
  EXPECT_EQ(TotalsOf(heap_.registry).caches, 0u);
  EXPECT_EQ(heap_.arena.allocated_bytes(), allocated);
  heap_.vm.StopFailing();
  TestThread later(heap_.registry);
  EXPECT_NE(later.cache(), nullptr);
}

TEST_F(RegistryTest, AnEmptiedCacheIsUsedAgain) {
  TestThread first(heap_.registry);
  ThreadCache* const cache = first.cache();
  Fill(first);
  first.RaiseLimitTo(size_t{1} << 20);
  cache->RequestFlush();
  // The next use would earn a bin.
  const SizeClass late = ClassForSize(kMaxSmallSize);
  for (int i = 0; i < bin_policy::UsesWithoutBin(late); ++i) first.Allocate(late);
  first.Exit();
  const size_t allocated = heap_.arena.allocated_bytes();
  TestThread second(heap_.registry);
  EXPECT_EQ(second.cache(), cache);
  EXPECT_EQ(heap_.arena.allocated_bytes(), allocated);
  EXPECT_EQ(cache->max_bytes(), kInitialCacheBytes);
  EXPECT_EQ(cache->claimed_bytes(), 0u);
  second.RaiseLimitTo(size_t{1} << 20);
  second.Allocate(late);
  EXPECT_EQ(cache->claimed_bytes(), 0u) << "no bin yet";
}

TEST_F(RegistryTest, ACacheIsInherited) {
  heap_.registry.SetInheritance(true);
  TestThread first(heap_.registry);
  const size_t objects = Fill(first);
  ASSERT_GT(objects, 0u);
  ThreadCache* const cache = first.cache();
  first.Exit();
  EXPECT_EQ(TotalsOf(heap_.registry).caches, 0u);
  EXPECT_EQ(TotalsOf(heap_.registry).cached_bytes, objects * kSize);
  EXPECT_EQ(TotalsOf(heap_.registry).array_bytes, cache->table().array_bytes());
  EXPECT_EQ(CachedObjects(heap_.registry, c_), objects);
  heap_.registry.CheckInvariants();

  const size_t in_tiers = heap_.CentralObjects(c_);
  TestThread second(heap_.registry);
  EXPECT_EQ(second.cache(), cache);
  EXPECT_EQ(second.cache()->max_bytes(), kInitialCacheBytes);
  std::vector<void*> had;
  for (size_t i = 0; i < objects; ++i) had.push_back(second.Allocate(c_));
  EXPECT_EQ(heap_.CentralObjects(c_), in_tiers);
  EXPECT_EQ(second.CachedObjects(c_), 0u);
  heap_.registry.CheckInvariants();
  // While it is in use the next thread gets another one.
  TestThread third(heap_.registry);
  EXPECT_NE(third.cache(), cache);
  third.Exit();
  for (void* const object : had) second.Free(c_, object);
  // A flush by another thread detaches the cache through the slot of its new owner.
  EXPECT_EQ(heap_.registry.FlushAll(nullptr), objects * kSize);
  second.Exit();
  ExpectAllReturned();
}

TEST_F(RegistryTest, AnInheritedCacheKeepsItsLimit) {
  heap_.registry.SetInheritance(true);
  TestThread first(heap_.registry);
  std::vector<void*> objects;
  while (first.cache()->claimed_bytes() <= 2 * kInitialCacheBytes) {
    objects.push_back(first.Allocate(c_));
  }
  for (void* const object : objects) first.Free(c_, object);
  const size_t claimed = first.cache()->claimed_bytes();
  ASSERT_GT(claimed, kInitialCacheBytes);
  first.Exit();

  TestThread second(heap_.registry);
  EXPECT_GE(second.cache()->max_bytes(), claimed);
  EXPECT_LT(second.cache()->max_bytes(), 2 * claimed);
  heap_.registry.CheckInvariants();
  second.Exit();

  heap_.registry.SetTotalLimit(kInitialCacheBytes);
  TestThread third(heap_.registry);
  EXPECT_EQ(third.cache()->claimed_bytes(), claimed);
  EXPECT_EQ(third.cache()->max_bytes(), kInitialCacheBytes);
  heap_.registry.CheckInvariants();
}

TEST_F(RegistryTest, EachThreadHasAShard) {
  heap_.registry.SetInheritance(true);
  TestThread one(heap_.registry);
  TestThread two(heap_.registry);
  TestThread three(heap_.registry);
  Shard& shard = two.cache()->shard();
  EXPECT_EQ(one.cache()->shard().number(), 0u);
  EXPECT_EQ(shard.number(), 1u);
  EXPECT_EQ(three.cache()->shard().number(), 2u);
  Fill(two);
  two.Exit();
  // The inherited cache keeps the shard, but no thread has the shard.
  EXPECT_EQ(NumCaches(shard), 1u);
  EXPECT_EQ(shard.num_threads(), 0u);
  heap_.CheckInvariants();
  TestThread heir(heap_.registry);
  EXPECT_EQ(&heir.cache()->shard(), &shard);
  EXPECT_EQ(shard.num_threads(), 1u);
  TestThread fourth(heap_.registry);
  EXPECT_EQ(fourth.cache()->shard().number(), 3u);
  // Without inheritance the shard's number is free again.
  heap_.registry.SetInheritance(false);
  heir.Exit();
  EXPECT_EQ(NumCaches(shard), 0u);
  TestThread fifth(heap_.registry);
  EXPECT_EQ(&fifth.cache()->shard(), &shard);
  heap_.CheckInvariants();
  for (TestThread* const thread : {&one, &three, &fourth, &fifth}) thread->Exit();
  ExpectAllReturned();
}

TEST_F(RegistryTest, ThreadsThatStartAtOnceGetDifferentShards) {
  constexpr size_t kThreads = 8;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<TestThread>> caches[kThreads];
    RunThreads(kThreads, [&](size_t t) {
      for (size_t i = 0; i < ShardMap::kDefault / kThreads; ++i) {
        caches[t].push_back(std::make_unique<TestThread>(heap_.registry));
      }
    });
    heap_.central.shards().ForEach(
        [this](const Shard& shard) { ASSERT_EQ(NumCaches(shard), 1u) << shard.number(); });
    heap_.registry.CheckInvariants();
    for (auto& list : caches) {
      for (auto& thread : list) thread->Exit();
    }
  }
}

// A fork may come between any two acquisitions of the registry's lock, and the child then knows
// only the caches in the lists. At these moments only listed caches may have claimed shards.
TEST_F(RegistryTest, OnlyListedCachesHaveShards) {
  heap_.page_heap.governor()->SetReleasing(Releasing::kEager);
  TestThread first(heap_.registry);
  TestThread thread(heap_.registry);
  const Shard& shard = thread.cache()->shard();
  Fill(thread);
  EXPECT_EQ(NumCaches(shard), 1u);
  // At its end the cache returns its objects, and a span becomes empty and is released.
  bool released = false;
  heap_.vm.OnNextRelease([&] {
    released = true;
    EXPECT_EQ(NumCaches(shard), 0u);
    EXPECT_EQ(shard.num_threads(), 0u);
    heap_.registry.CheckInvariants();
  });
  thread.Exit();
  EXPECT_TRUE(released);
  // New caches and shards need memory.
  std::vector<std::unique_ptr<TestThread>> threads;
  for (bool mapped = false; !mapped;) {
    heap_.vm.OnNextMap([&] {
      mapped = true;
      heap_.registry.CheckInvariants();
    });
    threads.push_back(std::make_unique<TestThread>(heap_.registry));
    ASSERT_LE(threads.size(), 1000u);
  }
  for (auto& other : threads) other->Exit();
}

// In the child, the shards of threads that exist only in the parent are free, including the shards
// of caches whose objects are collected later. A thread that was moving several objects at the
// moment of the fork leaves bins that may be inconsistent: its cache is leaked.
TEST_F(RegistryTest, OrphansLeaveTheirShards) {
  TestThread survivor(heap_.registry);
  TestThread orphan(heap_.registry);
  TestThread changing(heap_.registry);
  Fill(survivor);
  Fill(orphan);
  const size_t lost = Fill(changing);
  Shard* const shards[] = {&survivor.cache()->shard(), &orphan.cache()->shard(),
                           &changing.cache()->shard()};
  for (const Shard* const shard : shards) EXPECT_EQ(shard->num_threads(), 1u);
  changing.cache()->BeginChange();
  OrphanOthers(survivor.cache());
  heap_.CheckInvariants();
  EXPECT_EQ(TotalsOf(heap_.registry).caches, 2u);
  EXPECT_EQ(shards[0]->num_threads(), 1u);
  for (size_t i = 1; i < 3; ++i) EXPECT_EQ(shards[i]->num_threads(), 0u) << i;
  EXPECT_EQ(NumCaches(*shards[2]), 0u);
  EXPECT_TRUE(heap_.registry.AdoptOrphan());
  EXPECT_FALSE(heap_.registry.AdoptOrphan());
  EXPECT_EQ(NumCaches(*shards[0]), 1u);
  for (size_t i = 1; i < 3; ++i) EXPECT_EQ(NumCaches(*shards[i]), 0u) << i;
  EXPECT_TRUE(heap_.Conserved(c_, lost));
  survivor.Exit();
  EXPECT_TRUE(heap_.Conserved(c_, lost));
  heap_.CheckInvariants();
}

TEST_F(RegistryTest, NoMoreIsInheritedThanAllowed) {
  std::vector<std::unique_ptr<TestThread>> threads;
  size_t claimed = 0;
  for (int t = 0; t < 5; ++t) {
    threads.push_back(std::make_unique<TestThread>(heap_.registry));
    Fill(*threads.back());
    claimed = threads.back()->cache()->claimed_bytes();
  }
  const size_t objects = threads[0]->CachedObjects(c_);
  heap_.registry.SetInheritance(true);
  heap_.page_heap.hints().retention.SetTotal(3 * claimed * kInheritedPart);
  for (auto& thread : threads) thread->Exit();
  EXPECT_EQ(CachedObjects(heap_.registry, c_), 3 * objects);
  EXPECT_EQ(TotalsOf(heap_.registry).caches, 0u);
  heap_.registry.CheckInvariants();
  // A flush empties the inherited caches.
  EXPECT_EQ(heap_.registry.FlushAll(nullptr), 3 * objects * kSize);
  EXPECT_EQ(TotalsOf(heap_.registry).cached_bytes, 0u);
  heap_.registry.CheckInvariants();
  ExpectAllReturned();
}

TEST_F(RegistryTest, EmptyCachesAreNotInherited) {
  heap_.registry.SetInheritance(true);
  TestThread idle(heap_.registry);
  Shard& shard = idle.cache()->shard();
  idle.Exit();
  EXPECT_EQ(NumCaches(shard), 0u);
  heap_.registry.CheckInvariants();
}

TEST_F(RegistryTest, OrphansAreAdoptedOneByOne) {
  EXPECT_FALSE(heap_.registry.AdoptOrphan());
  TestThread survivor(heap_.registry);
  TestThread one(heap_.registry);
  TestThread two(heap_.registry);
  const size_t own = Fill(survivor);
  const size_t of_one = Fill(one);
  const size_t of_two = Fill(two);
  // One of the threads was in the middle of a single push: its bin is consistent.
  two.slot().BeginAccess();
  OrphanOthers(survivor.cache());
  // The orphans' objects are still counted.
  EXPECT_EQ(TotalsOf(heap_.registry).caches, 3u);
  EXPECT_EQ(CachedObjects(heap_.registry, c_), own + of_one + of_two);

  heap_.registry.AdoptOrphanIfAny();
  EXPECT_EQ(TotalsOf(heap_.registry).caches, 2u);
  EXPECT_TRUE(heap_.registry.AdoptOrphan());
  EXPECT_FALSE(heap_.registry.AdoptOrphan());
  heap_.registry.AdoptOrphanIfAny();
  EXPECT_EQ(TotalsOf(heap_.registry).caches, 1u);
  EXPECT_EQ(CachedObjects(heap_.registry, c_), own);
  EXPECT_TRUE(heap_.Conserved(c_, 0));
  survivor.Exit();
  ExpectAllReturned();
}

}  // namespace
}  // namespace tcmalloc
