// SPDX-License-Identifier: BSD-3-Clause
#include "base/counters.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace tcmalloc {
namespace {

TEST(OwnedCounterTest, AddsSubtractsAndSets) {
  OwnedCounter counter;
  EXPECT_EQ(counter.value(), 0u);
  counter.Add(5);
  counter.Subtract(2);
  EXPECT_EQ(counter.value(), 3u);
  counter.Set(10);
  EXPECT_EQ(counter.value(), 10u);
}

// One writer, many readers: none sees the value go back. ThreadSanitizer sees that reading is no race.
TEST(OwnedCounterTest, MayBeReadWhileItsOwnerWrites) {
  constexpr size_t kAdditions = 50'000;
  OwnedCounter counter;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      size_t last = 0;
      while (last < kAdditions) {
        const size_t now = counter.value();
        EXPECT_GE(now, last);
        last = now;
      }
      EXPECT_EQ(last, kAdditions);
    });
  }
  for (size_t i = 0; i < kAdditions; ++i) counter.Add(1);
  for (std::thread& reader : readers) reader.join();
}

// The owner may be whoever holds a lock.
TEST(OwnedCounterTest, MayChangeItsOwnerUnderALock) {
  OwnedCounter counter;
  std::mutex mutex;
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      for (int k = 0; k < 5000; ++k) {
        const std::lock_guard<std::mutex> guard(mutex);
        counter.Add(3);
        counter.Subtract(1);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(counter.value(), 40'000u);
}

TEST(SharedCounterTest, LosesNothingWhenManyWrite) {
  SharedCounter counter;
  std::vector<std::thread> writers;
  for (int i = 0; i < 8; ++i) {
    writers.emplace_back([&counter] {
      for (int k = 0; k < 20'000; ++k) {
        counter.Add(3);
        counter.Subtract(2);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(counter.value(), 160'000u);
}

}  // namespace
}  // namespace tcmalloc
