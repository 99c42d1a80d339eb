// SPDX-License-Identifier: BSD-3-Clause
#include "central/transfer_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

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

size_t ExpectedCapacity(SizeClass c) {
  const size_t batch_bytes = kSizeClasses.batch_size(c) * kSizeClasses.size(c);
  return std::min(TransferCache::kMaxBatches, TransferCache::kMaxBytes / batch_bytes);
}

TEST(TransferCacheTest, HoldsAsManyBatchesAsItMayAndHandsThemOutInReverse) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    TransferCache cache(c, arena);
    const size_t batch_size = cache.batch_size();
    ASSERT_EQ(batch_size, kSizeClasses.batch_size(c));
    const size_t capacity = ExpectedCapacity(c);
    for (size_t n = 0; n < capacity; ++n) {
      ASSERT_TRUE(cache.TryInsert(Batch(batch_size, 1000 * (n + 1)).data())) << "class " << i;
      ASSERT_EQ(cache.objects(), (n + 1) * batch_size);
    }
    ASSERT_FALSE(cache.TryInsert(Batch(batch_size, 1).data())) << "class " << i;
    ASSERT_LE(cache.objects() * kSizeClasses.size(c), TransferCache::kMaxBytes);
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

TEST(TransferCacheTest, SmallObjectsHaveRoomAndTheLargestHaveNone) {
  EXPECT_EQ(ExpectedCapacity(ClassForSize(8)), 64u);
  EXPECT_GE(ExpectedCapacity(ClassForSize(1024)), 4u);
  EXPECT_EQ(ExpectedCapacity(ClassForSize(kMaxSmallSize)), 0u);
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  TransferCache cache(ClassForSize(kMaxSmallSize), arena);
  EXPECT_FALSE(cache.TryInsert(Batch(cache.batch_size(), 1).data()));
  EXPECT_EQ(vm.map_calls(), 0u);
}

TEST(TransferCacheTest, TakesNoMemoryBeforeTheFirstBatch) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  const SizeClass c = ClassForSize(64);
  TransferCache cache(c, arena);
  void* out[kMaxBatchSize];
  EXPECT_FALSE(cache.TryRemove(out));
  EXPECT_EQ(cache.array_bytes(), 0u);
  EXPECT_EQ(arena.allocated_bytes(), 0u);
  EXPECT_EQ(vm.map_calls(), 0u);
  ASSERT_TRUE(cache.TryInsert(Batch(cache.batch_size(), 1).data()));
  EXPECT_EQ(cache.array_bytes(),
            MetadataArena::RoundedBytes(ExpectedCapacity(c) * cache.batch_size() * sizeof(void*)));
  EXPECT_EQ(arena.allocated_bytes(), cache.array_bytes());
  // The array stays.
  ASSERT_TRUE(cache.TryRemove(out));
  ASSERT_TRUE(cache.TryInsert(Batch(cache.batch_size(), 1).data()));
  EXPECT_EQ(arena.allocated_bytes(), cache.array_bytes());
}

TEST(TransferCacheTest, WithoutMemoryForTheArrayItIsFull) {
  FakeVirtualMemory vm;
  MetadataArena arena(vm);
  TransferCache cache(ClassForSize(64), arena);
  const std::vector<void*> batch = Batch(cache.batch_size(), 1);
  vm.FailMap(1, FakeVirtualMemory::kForever);
  EXPECT_FALSE(cache.TryInsert(batch.data()));
  EXPECT_FALSE(cache.TryInsert(batch.data()));
  EXPECT_EQ(vm.map_failures(), 2u);
  EXPECT_EQ(cache.objects(), 0u);
  EXPECT_EQ(cache.array_bytes(), 0u);
  EXPECT_EQ(arena.allocated_bytes(), 0u);
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
  TransferCache cache(ClassForSize(256), arena);
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
