// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "os/threads.h"

namespace tcmalloc {
namespace {

TEST(ThreadNumberTest, LivingThreadsHaveDifferentNumbers) {
  constexpr size_t kThreads = 100;
  std::vector<uint32_t> numbers(kThreads);
  std::latch all_have_one(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      numbers[t] = ThisThreadNumber();
      all_have_one.arrive_and_wait();
      EXPECT_EQ(ThisThreadNumber(), numbers[t]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  numbers.push_back(ThisThreadNumber());
  for (const uint32_t number : numbers) {
    EXPECT_NE(number, 0u);
    EXPECT_LT(number, uint32_t{1} << kThreadNumberBits);
  }
  EXPECT_EQ(std::set<uint32_t>(numbers.begin(), numbers.end()).size(), kThreads + 1);
}

TEST(ThreadNumberTest, ANumberIsGivenAgainAfterAllOthers) {
  // Tests numbers around the last number, and around the last value of the count.
  for (const uint32_t given : {uint32_t{1} << kThreadNumberBits, uint32_t{0}}) {
    ThreadNumbers numbers(given - 100);
    std::set<uint32_t> seen;
    for (int i = 0; i < 200; ++i) {
      const uint32_t number = numbers.New();
      EXPECT_NE(number, 0u);
      EXPECT_LT(number, uint32_t{1} << kThreadNumberBits);
      EXPECT_TRUE(seen.insert(number).second) << number;
    }
  }
}

}  // namespace
}  // namespace tcmalloc
