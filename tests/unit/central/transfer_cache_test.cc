// SPDX-License-Identifier: BSD-3-Clause
#include "central/transfer_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/tuning.h"
#include "central/transfer_policy.h"
#include "testing/heap_fixture.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

// The cache never looks at an object: any numbers will do.
std::vector<void*> Batch(size_t batch_size, uintptr_t first) {
  std::vector<void*> batch;
  for (size_t i = 0; i < batch_size; ++i) batch.push_back(reinterpret_cast<void*>(first + i));
  return batch;
}

// More than one cache ever claims.
constexpr size_t kPlenty = size_t{1} << 30;

TEST(TransferCacheTest, HoldsAsManyBatchesAsItMayAndHandsThemOutInReverse) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  TransferBudget budget(kPlenty);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    TransferCache cache(c, arena, budget);
    const size_t batch_size = cache.batch_size();
    ASSERT_EQ(batch_size, kSizeClasses.batch_size(c));
    ASSERT_EQ(cache.batch_bytes(), batch_size * kSizeClasses.size(c));
    const size_t capacity = cache.max_slots();
    ASSERT_EQ(capacity, transfer_policy::MaxSlots(c));
    for (size_t n = 0; n < capacity; ++n) {
      ASSERT_FALSE(cache.HasMost());
      ASSERT_TRUE(cache.WantsSlot());
      ASSERT_TRUE(cache.TryInsert(Batch(batch_size, 1000 * (n + 1)).data())) << "class " << i;
      ASSERT_EQ(cache.objects(), (n + 1) * batch_size);
    }
    ASSERT_FALSE(cache.TryInsert(Batch(batch_size, 1).data())) << "class " << i;
    ASSERT_TRUE(cache.HasMost());
    ASSERT_FALSE(cache.WantsSlot());
    ASSERT_LE(cache.objects() * kSizeClasses.size(c), kTuning.transfer.max_class_bytes);
    size_t batches = 0;
    cache.CheckInvariants();
    cache.ForEachBatch([&](void* const* batch) {
      ++batches;
      ASSERT_EQ(std::vector<void*>(batch, batch + batch_size), Batch(batch_size, 1000 * batches));
    });
    ASSERT_EQ(batches, capacity);
    for (size_t n = capacity; n > 0; --n) {
      std::vector<void*> batch(batch_size);
      ASSERT_TRUE(cache.TryRemove(batch.data()));
      ASSERT_EQ(batch, Batch(batch_size, 1000 * n));
    }
    void* batch[kMaxBatchSize];
    ASSERT_FALSE(cache.TryRemove(batch));
    ASSERT_EQ(cache.objects(), 0u);
  }
}

TEST(TransferCacheTest, TheLargestHaveNoRoom) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  TransferBudget budget(kPlenty);
  TransferCache cache(ClassForSize(kMaxSmallSize), arena, budget);
  EXPECT_EQ(cache.max_slots(), 0u);
  EXPECT_TRUE(cache.HasMost());
  EXPECT_FALSE(cache.TryInsert(Batch(cache.batch_size(), 1).data()));
  EXPECT_EQ(vm.map_calls(), 0u);
  EXPECT_EQ(budget.unclaimed(), kPlenty);
}

TEST(TransferCacheTest, GivesUnusedSlotsBack) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  const SizeClass c = ClassForSize(1024);
  TransferBudget budget(4 * transfer_policy::BatchBytes(c));
  TransferCache cache(c, arena, budget);
  const std::vector<void*> batch = Batch(cache.batch_size(), 1);
  std::vector<void*> out(cache.batch_size());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(cache.TryInsert(batch.data()));
  EXPECT_EQ(budget.unclaimed(), 0u);
  // None is unused.
  cache.GiveUnusedSlots(1);
  EXPECT_EQ(cache.slots(), 4u);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cache.TryRemove(out.data()));
  cache.GiveUnusedSlots(cache.batch_bytes() + 1);
  EXPECT_EQ(cache.slots(), 2u);
  EXPECT_EQ(budget.unclaimed(), 2 * cache.batch_bytes());
  cache.GiveUnusedSlots(kPlenty);
  EXPECT_EQ(cache.slots(), 1u);
  EXPECT_EQ(cache.objects(), cache.batch_size());
  cache.CheckInvariants();
  // It may have them back while no one else has them.
  EXPECT_TRUE(budget.TryClaim(2 * cache.batch_bytes()));
  EXPECT_TRUE(cache.TryInsert(batch.data()));
  EXPECT_FALSE(cache.TryInsert(batch.data()));
  EXPECT_EQ(cache.slots(), 2u);
}

TEST(TransferCacheTest, TakesNoMemoryBeforeTheFirstBatch) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  const SizeClass c = ClassForSize(64);
  TransferBudget budget(kPlenty);
  TransferCache cache(c, arena, budget);
  void* out[kMaxBatchSize];
  EXPECT_FALSE(cache.TryRemove(out));
  EXPECT_EQ(cache.array_bytes(), 0u);
  EXPECT_EQ(arena.allocated_bytes(), 0u);
  EXPECT_EQ(vm.map_calls(), 0u);
  ASSERT_TRUE(cache.TryInsert(Batch(cache.batch_size(), 1).data()));
  EXPECT_EQ(cache.array_bytes(),
            MetadataArena::RoundedBytes(cache.max_slots() * cache.batch_size() * sizeof(void*)));
  EXPECT_EQ(arena.allocated_bytes(), cache.array_bytes());
  // The array stays.
  ASSERT_TRUE(cache.TryRemove(out));
  ASSERT_TRUE(cache.TryInsert(Batch(cache.batch_size(), 1).data()));
  EXPECT_EQ(arena.allocated_bytes(), cache.array_bytes());
}

TEST(TransferCacheTest, WithoutMemoryForTheArrayItIsFull) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  TransferBudget budget(kPlenty);
  TransferCache cache(ClassForSize(64), arena, budget);
  const std::vector<void*> batch = Batch(cache.batch_size(), 1);
  vm.FailMap(1, FakeVirtualMemory::kForever);
  EXPECT_FALSE(cache.TryInsert(batch.data()));
  EXPECT_FALSE(cache.TryInsert(batch.data()));
  EXPECT_EQ(vm.map_failures(), 2u);
  EXPECT_EQ(cache.objects(), 0u);
  EXPECT_EQ(cache.array_bytes(), 0u);
  EXPECT_EQ(arena.allocated_bytes(), 0u);
  // The slot that it claimed is unused: others can have it.
  cache.CheckInvariants();
  cache.GiveUnusedSlots(kPlenty);
  EXPECT_EQ(budget.unclaimed(), kPlenty);
  vm.StopFailing();
  EXPECT_TRUE(cache.TryInsert(batch.data()));
  EXPECT_EQ(cache.objects(), cache.batch_size());
}

// Threads pass batches around; the array is allocated by whichever comes first, once. Each number
// is in exactly one place.
TEST(TransferCacheTest, ManyThreads) {
  constexpr size_t kThreads = 8;
  constexpr size_t kBatches = 6;
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  TransferBudget budget(kPlenty);
  TransferCache cache(ClassForSize(256), arena, budget);
  std::vector<std::vector<std::vector<void*>>> left(kThreads);
  std::atomic<size_t> ready{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(77 + t);
      std::vector<std::vector<void*>>& mine = left[t];
      for (size_t i = 0; i < kBatches; ++i) {
        mine.push_back(Batch(cache.batch_size(), 1000000 * (t + 1) + 1000 * i));
      }
      ready.fetch_add(1);
      while (ready.load() < kThreads) std::this_thread::yield();
      for (int step = 0; step < 2000; ++step) {
        if (!mine.empty() && random.OneIn(2)) {
          if (cache.TryInsert(mine.back().data())) mine.pop_back();
        } else {
          std::vector<void*> batch(cache.batch_size());
          if (cache.TryRemove(batch.data())) mine.push_back(batch);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.allocated_bytes(), cache.array_bytes());
  std::vector<void*> all;
  std::vector<void*> batch(cache.batch_size());
  while (cache.TryRemove(batch.data())) all.insert(all.end(), batch.begin(), batch.end());
  for (const auto& batches : left) {
    for (const auto& each : batches) all.insert(all.end(), each.begin(), each.end());
  }
  std::vector<void*> expected;
  for (size_t t = 0; t < kThreads; ++t) {
    for (size_t i = 0; i < kBatches; ++i) {
      const std::vector<void*> each = Batch(cache.batch_size(), 1000000 * (t + 1) + 1000 * i);
      expected.insert(expected.end(), each.begin(), each.end());
    }
  }
  std::sort(all.begin(), all.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(all, expected);
}

}  // namespace
}  // namespace tcmalloc
