// SPDX-License-Identifier: BSD-3-Clause
#include "base/counters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tcmalloc {
namespace {

// All threads start together and run for longer than a time slice, so that additions overlap.
TEST(SharedCounterTest, LosesNoUpdateOfManyWriters) {
  constexpr size_t kThreads = 4;
  constexpr size_t kRounds = 500'000;
  SharedCounter counter;
  std::atomic<size_t> ready{0};
  std::vector<std::thread> writers;
  for (size_t i = 0; i < kThreads; ++i) {
    writers.emplace_back([&] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      for (size_t k = 0; k < kRounds; ++k) {
        counter.Add(3);
        counter.Subtract(2);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(counter.value(), kThreads * kRounds);
}

}  // namespace
}  // namespace tcmalloc
