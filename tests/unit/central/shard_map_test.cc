// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "central/shard.h"
#include "testing/heap_fixture.h"

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
  EXPECT_EQ(ShardOf(map_, 77), 0u);
  EXPECT_EQ(ShardOf(map_, 3), 1u);
  EXPECT_EQ(ShardOf(map_, 77), 0u);
  EXPECT_EQ(ShardOf(map_, 0), 2u);
  EXPECT_EQ(ShardOf(map_, kProcessors - 1), 3u);
  // A CPU that has asked keeps its shard.
  for (const auto& [number, shard] : {std::pair(3, 1u), {kProcessors - 1, 3u}, {0, 2u}, {77, 0u}}) {
    EXPECT_EQ(ShardOf(map_, number), shard) << number;
  }
  EXPECT_EQ(ShardOf(map_, 5), 4u);
}

TEST_F(ShardMapTest, AnUnknownProcessorHasTheFirstShard) {
  EXPECT_EQ(ShardOf(map_, -1), 0u);
  EXPECT_EQ(ShardOf(map_, 9), 0u);
  EXPECT_EQ(ShardOf(map_, 8), 1u);
  EXPECT_EQ(ShardOf(map_, -1), 0u);
  EXPECT_EQ(ShardOf(map_, -1000), 0u);
  EXPECT_EQ(ShardOf(map_, 7), 2u);
}

TEST_F(ShardMapTest, ProcessorsBeyondTheTableShareEntries) {
  EXPECT_EQ(ShardOf(map_, 1), 0u);
  EXPECT_EQ(ShardOf(map_, kProcessors + 2), 1u);
  EXPECT_EQ(ShardOf(map_, kProcessors + 1), 0u);
  EXPECT_EQ(ShardOf(map_, 2), 1u);
  // CPUs within the table share no entries.
  EXPECT_EQ(ShardOf(map_, kProcessors / 2 + 1), 2u);
  EXPECT_EQ(ShardOf(map_, 5 * kProcessors + 2), 1u);
  EXPECT_LT(ShardOf(map_, 0x7fffffff), kShards);
}

// Several threads on each CPU ask for their shards for the first time, all at once. All threads on
// one CPU get the same shard, then and later. Two CPUs get the same shard only if there are not
// enough. (Or a few CPUs earlier: when two threads on one CPU ask at once, a number is skipped.)
TEST_F(ShardMapTest, ConcurrentFirstAsks) {
  constexpr int kThreads = 8;
  constexpr int kAsked = 6;
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    const auto heap = std::make_unique<TestHeap>();
    ShardMap* const map = &heap->central.shards();
    std::atomic<int> ready{0};
    std::vector<std::vector<size_t>> answers(kThreads, std::vector<size_t>(kAsked));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        ready.fetch_add(1);
        while (ready.load() < kThreads) std::this_thread::yield();
        for (int i = 0; i < kAsked; ++i) {
          const int number = (i + t / 4) % kAsked;
          answers[static_cast<size_t>(t)][static_cast<size_t>(number)] = ShardOf(*map, number);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int t = 1; t < kThreads; ++t) ASSERT_EQ(answers[static_cast<size_t>(t)], answers[0]);
    for (int i = 0; i < kAsked; ++i) {
      const size_t shard = answers[0][static_cast<size_t>(i)];
      ASSERT_LT(shard, kShards);
      ASSERT_EQ(ShardOf(*map, i), shard);
    }
  }
}

TEST_F(ShardMapTest, EachIsMadeOnce) {
  EXPECT_EQ(map_.At(3), nullptr);
  Shard& shard = map_.Ensure(3);
  EXPECT_EQ(shard.number(), 3u);
  EXPECT_EQ(&map_.Ensure(3), &shard);
  EXPECT_EQ(map_.At(3), &shard);
  EXPECT_EQ(map_.At(2), nullptr);
  const SizeClass c = ClassForSize(64);
  EXPECT_EQ(shard.spans(c), nullptr);
  ShardSpans* const spans = map_.EnsureSpans(shard, c);
  ASSERT_NE(spans, nullptr);
  EXPECT_EQ(map_.EnsureSpans(shard, c), spans);
  EXPECT_EQ(shard.spans(c), spans);
  EXPECT_EQ(shard.spans(ClassForSize(128)), nullptr);
  EXPECT_EQ(map_.At(0)->spans(c), nullptr);
}

TEST_F(ShardMapTest, ThreadsThatMakeTheSameGetTheSame) {
  constexpr size_t kThreads = 8;
  constexpr int kRounds = 100;
  const SizeClass c = ClassForSize(64);
  for (int round = 0; round < kRounds; ++round) {
    const auto heap = std::make_unique<TestHeap>();
    ShardMap& map = heap->central.shards();
    std::atomic<size_t> ready{0};
    std::vector<std::pair<Shard*, ShardSpans*>> made(kThreads);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        ready.fetch_add(1);
        while (ready.load() < kThreads) std::this_thread::yield();
        made[t].first = &map.Ensure(5);
        made[t].second = map.EnsureSpans(*made[t].first, c);
        const SpinLockHolder holder(made[t].first->lock(c));
        made[t].second->num_spans.Add(1);
      });
    }
    for (std::thread& thread : threads) thread.join();
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

TEST_F(ShardMapTest, ACacheGetsTheLowestShardWithoutOne) {
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(Claim().number(), i);
  map_.Return(*map_.At(2));
  map_.Return(*map_.At(1));
  EXPECT_EQ(Claim().number(), 1u);
  EXPECT_EQ(Claim().number(), 2u);
  EXPECT_EQ(Claim().number(), 4u);
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
