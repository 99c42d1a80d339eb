// SPDX-License-Identifier: BSD-3-Clause
#include "base/shard_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace tcmalloc {
namespace {

constexpr int kProcessors = 1024;  // those above share entries with them

thread_local int processor = 0;

size_t ShardOf(ShardMap& map, int number) {
  processor = number;
  return map.Current();
}

class ShardMapTest : public testing::Test {
 protected:
  ShardMap map_{[] { return processor; }};
};

TEST_F(ShardMapTest, ShardsInTheOrderOfFirstAsking) {
  EXPECT_EQ(ShardOf(map_, 77), 0u);
  EXPECT_EQ(ShardOf(map_, 3), 1u);
  EXPECT_EQ(ShardOf(map_, 77), 0u);
  EXPECT_EQ(ShardOf(map_, 0), 2u);
  EXPECT_EQ(ShardOf(map_, kProcessors - 1), 3u);
  // Who asked keeps what it has.
  for (const auto& [number, shard] : {std::pair(3, 1u), {kProcessors - 1, 3u}, {0, 2u}, {77, 0u}}) {
    EXPECT_EQ(ShardOf(map_, number), shard) << number;
  }
  EXPECT_EQ(ShardOf(map_, 5), 4u);
}

TEST_F(ShardMapTest, MoreProcessorsThanShardsShareThemEvenly) {
  std::vector<size_t> processors_of(kMaxShards);
  // Not from 0 on: the number of the processor does not matter.
  for (int number = 100; number < 100 + 3 * static_cast<int>(kMaxShards); ++number) {
    const size_t shard = ShardOf(map_, number);
    ASSERT_EQ(shard, static_cast<size_t>(number - 100) % kMaxShards);
    ++processors_of[shard];
  }
  EXPECT_EQ(processors_of, std::vector<size_t>(kMaxShards, 3));
}

// It is not a processor: it takes no shard from those who are.
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
  // Those within it do not.
  EXPECT_EQ(ShardOf(map_, kProcessors / 2 + 1), 2u);
  EXPECT_EQ(ShardOf(map_, 5 * kProcessors + 2), 1u);
  EXPECT_LT(ShardOf(map_, 0x7fffffff), kMaxShards);
}

// Threads ask for the first time at once, several for each processor: all that are on one get the
// same answer then and later, and two processors get the same shard only where there are not enough
// (when two threads on one ask at once, a number is skipped: then somewhat earlier).
TEST_F(ShardMapTest, ConcurrentFirstAsks) {
  constexpr int kThreads = 8;
  constexpr int kAsked = 6;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    const auto map = std::make_unique<ShardMap>([] { return processor; });
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
      ASSERT_LT(shard, kMaxShards);
      ASSERT_EQ(ShardOf(*map, i), shard);
    }
  }
}

}  // namespace
}  // namespace tcmalloc
