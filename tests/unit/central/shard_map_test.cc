// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "central/shard.h"
#include "testing/heap_fixture.h"
#include "testing/run_threads.h"
#include "testing/thread_state.h"

namespace tcmalloc {
namespace {

constexpr int kProcessors = 1024;  // CPUs with larger numbers share entries with these

constexpr size_t kShards = kMaxShardsOfCpus;

size_t ShardOf(ShardMap& map, int number) {
  test_processor = number;
  return map.Current().number();
}

class ShardMapTest : public testing::Test {
 protected:
  ~ShardMapTest() override { test_processor = 0; }

  // Claims a shard as the registry does for a new cache.
  static Shard& Claim(ShardMap& map) {
    for (bool existing_only = false;; existing_only = !map.MakeNext()) {
      if (Shard* const shard = map.TryClaim(existing_only)) return *shard;
    }
  }
  Shard& Claim() { return Claim(map_); }

  TestHeap heap_;
  ShardMap& map_ = heap_.central.shards();
};

TEST_F(ShardMapTest, ShardsInTheOrderOfFirstAsking) {
  using Asked = std::vector<std::pair<int, size_t>>;  // a CPU and its shard
  const Asked kOrders[] = {
      {{77, 0}, {3, 1}, {77, 0}, {0, 2}, {kProcessors - 1, 3}, {3, 1}, {77, 0}, {5, 4}},
      // An unknown CPU has the first shard.
      {{-1, 0}, {9, 0}, {8, 1}, {-1, 0}, {-1000, 0}, {7, 2}},
      // CPUs beyond the table share entries with those within it, which share none.
      {{1, 0}, {kProcessors + 2, 1}, {kProcessors + 1, 0}, {2, 1}, {kProcessors / 2 + 1, 2}},
      {{2, 0}, {5 * kProcessors + 2, 0}, {0x7fffffff, 1}},
  };
  for (const Asked& order : kOrders) {
    TestHeap heap;
    for (const auto& [number, shard] : order) {
      EXPECT_EQ(ShardOf(heap.central.shards(), number), shard) << number;
    }
  }
}

// Several threads on each CPU ask for their shards for the first time, all at once. All threads on
// one CPU get the same shard, then and later. Two CPUs get the same shard only if there are not
// enough. (Or a few CPUs earlier: when two threads on one CPU ask at once, a number is skipped.)
TEST_F(ShardMapTest, ConcurrentFirstAsks) {
  constexpr size_t kThreads = 8;
  constexpr int kAsked = 6;
  for (int round = 0; round < 100; ++round) {
    const auto heap = std::make_unique<TestHeap>();
    ShardMap& map = heap->central.shards();
    std::vector<std::vector<size_t>> answers(kThreads, std::vector<size_t>(kAsked));
    RunThreads(kThreads, [&](size_t t) {
      for (int i = 0; i < kAsked; ++i) {
        const int number = (i + static_cast<int>(t / 4)) % kAsked;
        answers[t][static_cast<size_t>(number)] = ShardOf(map, number);
      }
    });
    for (const auto& of_thread : answers) ASSERT_EQ(of_thread, answers[0]);
    for (int i = 0; i < kAsked; ++i) {
      const size_t shard = answers[0][static_cast<size_t>(i)];
      ASSERT_LT(shard, kShards);
      ASSERT_EQ(ShardOf(map, i), shard);
    }
  }
}

TEST_F(ShardMapTest, ThreadsThatMakeTheSameGetTheSame) {
  constexpr size_t kThreads = 8;
  const SizeClass c = ClassForSize(64);
  for (int round = 0; round < 100; ++round) {
    const auto heap = std::make_unique<TestHeap>();
    ShardMap& map = heap->central.shards();
    std::vector<std::pair<Shard*, ShardSpans*>> made(kThreads);
    RunThreads(kThreads, [&](size_t t) {
      made[t].first = &map.Ensure(5);
      made[t].second = map.EnsureSpans(*made[t].first, c);
      const SpinLockHolder holder(made[t].first->lock(c));
      made[t].second->num_spans.Add(1);
    });
    for (const auto& each : made) ASSERT_EQ(each, made[0]);
    ASSERT_EQ(made[0].second->num_spans.value(), kThreads);
    // The slower threads freed their memory: the arena has as many allocated bytes as after one
    // thread.
    const auto alone = std::make_unique<TestHeap>();
    alone->central.shards().EnsureSpans(alone->central.shards().Ensure(5), c);
    ASSERT_EQ(heap->arena.allocated_bytes(), alone->arena.allocated_bytes());
  }
}

// While there is no memory for others, the first shard serves all CPUs and caches.
TEST_F(ShardMapTest, WithoutMemory) {
  heap_.vm.FailMap(1, FakeVirtualMemory::kForever);
  for (size_t bytes = MetadataArena::kMaxBytes; bytes >= 16; bytes /= 2) {
    while (heap_.arena.AllocateWithoutGrowing(bytes) != nullptr) {
    }
  }
  EXPECT_EQ(ShardOf(map_, 10), 0u);
  EXPECT_EQ(ShardOf(map_, 11), 0u);
  EXPECT_EQ(map_.At(1), nullptr);
  for (size_t caches = 1; caches <= 2; ++caches) {
    EXPECT_EQ(Claim().number(), 0u);
    EXPECT_EQ(map_.num_caches(*map_.At(0)), caches);
  }
  EXPECT_EQ(map_.EnsureSpans(map_.Ensure(0), ClassForSize(64)), nullptr);
  EXPECT_EQ(map_.At(0)->spans(ClassForSize(64)), nullptr);
  heap_.vm.StopFailing();
  EXPECT_EQ(ShardOf(map_, 11), 1u);
  EXPECT_NE(map_.EnsureSpans(map_.Ensure(0), ClassForSize(64)), nullptr);
}

TEST_F(ShardMapTest, MoreCachesThanShardsShareThemEvenly) {
  for (size_t i = 0; i < 2 * ShardMap::kDefault; ++i) Claim();
  map_.ForEach([this](const Shard& shard) { EXPECT_EQ(map_.num_caches(shard), 2u); });
  map_.Return(*map_.At(9));
  EXPECT_EQ(Claim().number(), 9u);
  EXPECT_EQ(Claim().number(), 0u);
}

// A shard that does not exist is made without the lock that serializes claims.
TEST_F(ShardMapTest, AMissingShardIsNotClaimed) {
  EXPECT_EQ(map_.TryClaim()->number(), 0u);
  EXPECT_EQ(map_.TryClaim(), nullptr);
  EXPECT_EQ(map_.TryClaim(true)->number(), 0u);
  EXPECT_EQ(map_.num_caches(*map_.At(0)), 2u);
  EXPECT_TRUE(map_.MakeNext());
  EXPECT_EQ(map_.TryClaim()->number(), 1u);
  while (map_.MakeNext()) {
  }
  map_.ForEach([this](const Shard& shard) {
    if (shard.number() > 1) {
      EXPECT_EQ(map_.num_caches(shard), 0u);
    }
  });
  EXPECT_NE(map_.At(ShardMap::kDefault - 1), nullptr);
}

TEST_F(ShardMapTest, KnowsTheShardsWithoutAThread) {
  EXPECT_EQ(map_.threadless(), 1u);
  map_.At(0)->AddThread();
  EXPECT_EQ(map_.threadless(), 0u);
  map_.Ensure(3);
  map_.Ensure(ShardMap::kDefault - 1).AddThread();
  EXPECT_EQ(map_.threadless(), 8u);
  map_.At(0)->AddThread();
  map_.At(0)->RemoveThread();
  EXPECT_EQ(map_.threadless(), 8u);
  map_.At(0)->RemoveThread();
  EXPECT_EQ(map_.threadless(), 9u);
  EXPECT_EQ(map_.all(), ~uint64_t{0});
}

TEST_F(ShardMapTest, VisitsAllFromTheOneAskedFor) {
  for (const size_t number : {2, 7, 11}) map_.Ensure(number);
  std::vector<size_t> numbers;
  map_.ForEach([&](const Shard& shard) { numbers.push_back(shard.number()); });
  EXPECT_EQ(numbers, (std::vector<size_t>{0, 2, 7, 11}));
  numbers.clear();
  EXPECT_EQ(map_.all(), 0xfffu);
  EXPECT_EQ(map_.FirstOf(map_.all(), 7,
                         [&](const Shard& shard) -> size_t {
                           numbers.push_back(shard.number());
                           return 0;
                         }),
            0u);
  EXPECT_EQ(numbers, (std::vector<size_t>{7, 11, 0, 2}));
  EXPECT_EQ(map_.FirstOf(map_.all() & ~map_.At(7)->bit(), 7,
                         [](const Shard& shard) -> size_t { return shard.number(); }),
            11u);
  EXPECT_EQ(map_.FirstOf(0, 7, [](const Shard&) -> size_t { return 1; }), 0u);
}

// Before fork all locks of all shards are held, each once. Meanwhile no shard takes objects.
TEST_F(ShardMapTest, BeforeForkEachLockIsHeld) {
  const SizeClass c = ClassForSize(512);
  CentralFreeList& list = heap_.central.free_list(c);
  for (size_t number = 0; number < kShards; ++number) {
    const std::vector<void*> objects = heap_.Take(c, list.objects_per_span(), number);
    std::set<void*> locks;
    SpinLock::BeginForkHold();
    heap_.central.ForEachLock([&](auto& lock) {
      EXPECT_TRUE(locks.insert(&lock).second);
      lock.HoldForFork();
    });
    EXPECT_EQ(locks.size(), 1 + kNumSizeClasses * (number + 1));
    std::thread other =
        StartUntilAsleep([&] { list.Insert(*map_.At(number), &objects.back(), 1); });
    EXPECT_EQ(list.free_objects(), 0u);
    SpinLock::EndForkHold();
    heap_.central.ForEachLock([](auto& lock) { lock.ReleaseAfterForkInParent(); });
    other.join();
    EXPECT_EQ(heap_.Take(c, 1, number)[0], objects.back());
  }
  heap_.CheckInvariants();
}

// A handler of another library allocates between the allocator's fork handlers. No shard is added
// then, since nothing would hold its locks.
TEST_F(ShardMapTest, NoShardIsAddedBetweenForkHandlers) {
  const SizeClass c = ClassForSize(64);
  map_.EnsureSpans(map_.Ensure(0), c);
  SpinLock::BeginForkHold();
  heap_.ForEachLock([](auto& lock) { lock.HoldForFork(); });
  EXPECT_NE(map_.EnsureSpans(map_.Ensure(0), ClassForSize(128)), nullptr);
  EXPECT_EQ(map_.Ensure(4).number(), 0u);
  EXPECT_FALSE(map_.MakeNext());
  std::set<const void*> locks;
  heap_.ForEachLock([&](auto& lock) {
    locks.insert(&lock);
    EXPECT_TRUE(lock.HeldForForkByThisThread());
  });
  // There are the locks of the map, of the first shard, and of the page heap.
  EXPECT_EQ(locks.size(), 2 + kNumSizeClasses);
  EXPECT_EQ(locks.count(&map_.At(0)->lock(ClassForSize(128))), 1u);
  SpinLock::EndForkHold();
  heap_.ForEachLock([](auto& lock) { lock.ReleaseAfterForkInParent(); });
  std::thread([&] { heap_.ForEachLock([](auto& lock) { lock.Lock(), lock.Unlock(); }); }).join();
  EXPECT_EQ(map_.Ensure(4).number(), 4u);
}

TEST_F(ShardMapTest, AsManyShardsAsRequested) {
  for (const size_t most : {size_t{1}, size_t{3}, ShardMap::kMost}) {
    TestHeap heap;
    ShardMap map(heap.page_heap, heap.arena, [] { return test_processor; }, most);
    std::set<size_t> numbers;
    for (int p = 0; p < 2 * static_cast<int>(most); ++p) numbers.insert(ShardOf(map, p));
    EXPECT_EQ(numbers.size(), std::min(most, kShards));
    EXPECT_EQ(*numbers.rbegin(), numbers.size() - 1);
    for (size_t i = 0; i < most; ++i) EXPECT_EQ(Claim(map).number(), i);
    EXPECT_EQ(Claim(map).number(), 0u);
  }
  test_processor = 0;
}

}  // namespace
}  // namespace tcmalloc
