// SPDX-License-Identifier: BSD-3-Clause
#include "central/transfer_caches.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/tuning.h"
#include "testing/heap_fixture.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

using transfer_policy::BatchBytes;
using transfer_policy::MaxSlots;

// The caches never look at an object: any numbers will do.
std::array<void*, kMaxBatchSize> AnyBatch() {
  std::array<void*, kMaxBatchSize> batch;
  for (size_t i = 0; i < batch.size(); ++i) batch[i] = reinterpret_cast<void*>(i + 1);
  return batch;
}

class TransferCachesTest : public testing::Test {
 protected:
  // Inserts batches until one finds no room; returns how many did.
  size_t Fill(TransferCaches& caches, SizeClass c) {
    size_t n = 0;
    while (caches.TryInsert(c, batch_.data())) ++n;
    return n;
  }
  void Empty(TransferCaches& caches, SizeClass c) {
    std::array<void*, kMaxBatchSize> batch;
    while (caches.TryRemove(c, batch.data())) continue;
  }

  const std::array<void*, kMaxBatchSize> batch_ = AnyBatch();
  FakeVirtualMemory vm_;
  MetadataArena arena_{vm_};
};

TEST_F(TransferCachesTest, SlotsAreClaimedWhenTheyAreNeeded) {
  TransferCaches caches(arena_);
  EXPECT_EQ(caches.budget().total(), kTuning.transfer.max_shard_bytes);
  EXPECT_EQ(caches.budget().unclaimed(), kTuning.transfer.max_shard_bytes);
  const SizeClass c = ClassForSize(1024);
  EXPECT_EQ(caches[c].slots(), 0u);
  for (size_t n = 1; n <= MaxSlots(c); ++n) {
    ASSERT_TRUE(caches.TryInsert(c, batch_.data()));
    ASSERT_EQ(caches[c].slots(), n);
    ASSERT_EQ(caches.budget().unclaimed(), kTuning.transfer.max_shard_bytes - n * BatchBytes(c));
    caches.CheckInvariants();
  }
  EXPECT_FALSE(caches.TryInsert(c, batch_.data()));
  // They stay when the batches go.
  Empty(caches, c);
  EXPECT_EQ(caches[c].slots(), MaxSlots(c));
  EXPECT_TRUE(caches.TryInsert(c, batch_.data()));
  EXPECT_EQ(caches[c].slots(), MaxSlots(c));
  caches.CheckInvariants();
}

TEST_F(TransferCachesTest, TheBudgetIsTheBound) {
  const SizeClass a = ClassForSize(1024);
  const SizeClass b = ClassForSize(2048);
  TransferCaches caches(arena_, 3 * BatchBytes(a) + BatchBytes(a) / 2);
  EXPECT_EQ(Fill(caches, a), 3u);
  EXPECT_EQ(Fill(caches, b), 0u);
  EXPECT_EQ(Fill(caches, a), 0u);
  caches.CheckInvariants();
}

TEST_F(TransferCachesTest, UnusedSlotsGoToTheClassThatNeedsThem) {
  const SizeClass a = ClassForSize(1024);
  const SizeClass b = ClassForSize(2048);
  ASSERT_EQ(BatchBytes(a), BatchBytes(b));
  TransferCaches caches(arena_, 3 * BatchBytes(a));
  EXPECT_EQ(Fill(caches, a), 3u);
  EXPECT_EQ(Fill(caches, b), 0u);
  std::array<void*, kMaxBatchSize> out;
  ASSERT_TRUE(caches.TryRemove(a, out.data()));
  // Not all classes are asked at once, but all in turn.
  size_t tries = 1;
  while (!caches.TryInsert(b, batch_.data())) {
    ASSERT_LE(++tries, kNumSizeClasses / kTuning.transfer.classes_asked + 2);
  }
  EXPECT_EQ(caches[a].slots(), 2u);
  EXPECT_EQ(caches[b].slots(), 1u);
  // The others are in use: nothing is evicted, however often one asks.
  for (size_t i = 0; i < kNumSizeClasses; ++i) EXPECT_FALSE(caches.TryInsert(b, batch_.data()));
  EXPECT_EQ(caches[a].objects(), 2 * caches[a].batch_size());
  EXPECT_EQ(caches[a].slots(), 2u);
  caches.CheckInvariants();
}

// Slots of several classes with small batches make room for one large batch; what is left over of
// a large one stays in the budget.
TEST_F(TransferCachesTest, SlotsOfDifferentSizes) {
  const SizeClass small = ClassForSize(8);
  const SizeClass large = ClassForSize(8192);
  TransferCaches caches(arena_, 64 * BatchBytes(small));
  ASSERT_EQ(BatchBytes(large), 64 * BatchBytes(small));
  EXPECT_EQ(Fill(caches, small), 64u);
  Empty(caches, small);
  size_t tries = 1;
  while (!caches.TryInsert(large, batch_.data())) {
    ASSERT_LE(++tries, kNumSizeClasses / kTuning.transfer.classes_asked + 2);
  }
  EXPECT_EQ(caches[small].slots(), 0u);
  caches.CheckInvariants();
  Empty(caches, large);
  tries = 1;
  while (!caches.TryInsert(small, batch_.data())) {
    ASSERT_LE(++tries, kNumSizeClasses / kTuning.transfer.classes_asked + 2);
  }
  EXPECT_EQ(caches[large].slots(), 0u);
  EXPECT_EQ(caches.budget().unclaimed(), 63 * BatchBytes(small));
  EXPECT_EQ(Fill(caches, small), 63u);
  caches.CheckInvariants();
}

// An insertion in vain looks at a few classes, not at all.
TEST_F(TransferCachesTest, AnInsertionAsksAFewClasses) {
  const SizeClass a = ClassForSize(1024);
  const SizeClass b = ClassForSize(2048);
  TransferCaches caches(arena_, BatchBytes(a));
  ASSERT_TRUE(caches.TryInsert(a, batch_.data()));
  Empty(caches, a);
  size_t in_vain = 0;
  // The turn is at the first class, `a` is one of the later ones.
  ASSERT_GT(Index(a), 2 * kTuning.transfer.classes_asked);
  while (!caches.TryInsert(b, batch_.data())) ++in_vain;
  EXPECT_EQ(in_vain, (Index(a) - 1) / kTuning.transfer.classes_asked);
}

TEST_F(TransferCachesTest, TheLargestClassesAskNoOne) {
  const SizeClass c = ClassForSize(kMaxSmallSize);
  const SizeClass a = ClassForSize(1024);
  TransferCaches caches(arena_, BatchBytes(a));
  EXPECT_EQ(Fill(caches, a), 1u);
  Empty(caches, a);
  for (size_t i = 0; i < kNumSizeClasses; ++i) EXPECT_FALSE(caches.TryInsert(c, batch_.data()));
  EXPECT_EQ(caches[a].slots(), 1u);
}

// Two sets of caches know nothing of each other: one per group of processors is possible.
TEST_F(TransferCachesTest, SetsAreIndependent) {
  const SizeClass c = ClassForSize(1024);
  TransferCaches one(arena_, BatchBytes(c));
  TransferCaches other(arena_, 2 * BatchBytes(c));
  EXPECT_EQ(Fill(one, c), 1u);
  EXPECT_EQ(Fill(other, c), 2u);
  one.CheckInvariants();
  other.CheckInvariants();
}

// Claims and returns from many threads: never more than the budget, and in the end all of it is
// accounted for.
TEST_F(TransferCachesTest, ManyThreads) {
  constexpr size_t kThreads = 6;
  const SizeClass classes[] = {ClassForSize(8), ClassForSize(64), ClassForSize(1024),
                               ClassForSize(2048), ClassForSize(8192)};
  TransferCaches caches(arena_, 5 * BatchBytes(ClassForSize(1024)));
  std::atomic<size_t> accepted{0};
  std::atomic<size_t> handed_out{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(300 + t);
      std::array<void*, kMaxBatchSize> out;
      for (int step = 0; step < 3000; ++step) {
        const SizeClass c = classes[random.Below(std::size(classes))];
        if (random.OneIn(2)) {
          if (caches.TryInsert(c, batch_.data())) accepted.fetch_add(1);
        } else if (caches.TryRemove(c, out.data())) {
          handed_out.fetch_add(1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  caches.CheckInvariants();
  size_t left = 0;
  size_t bytes = 0;
  for (const SizeClass c : classes) {
    left += caches[c].objects() / caches[c].batch_size();
    bytes += caches[c].slots() * BatchBytes(c);
  }
  EXPECT_EQ(accepted.load(), handed_out.load() + left);
  EXPECT_LE(bytes, caches.budget().total());
}

using TransferCachesDeathTest = TransferCachesTest;

TEST_F(TransferCachesDeathTest, InvariantsAreChecked) {
  TransferCaches caches(arena_);
  const SizeClass c = ClassForSize(1024);
  ASSERT_TRUE(caches.TryInsert(c, batch_.data()));
  TransferBudget budget(3000);
  EXPECT_FALSE(budget.TryClaim(3001));
  EXPECT_TRUE(budget.TryClaim(3000));
  EXPECT_FALSE(budget.TryClaim(1));
  budget.Return(2);
  EXPECT_TRUE(budget.TryClaim(1));
  EXPECT_EQ(budget.unclaimed(), 1u);
  // T3: bytes that no slot has.
  EXPECT_DEATH(
      {
        const_cast<TransferBudget&>(caches.budget()).Return(1);
        caches.CheckInvariants();
      },
      "check failed");
}

}  // namespace
}  // namespace tcmalloc
