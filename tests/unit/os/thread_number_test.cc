// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_number.h"

#include <gtest/gtest.h>

#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "testing/in_child.h"

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

TEST(ThreadNumberTest, AChildKnowsThreadsOfItsParentAlsoWhenNumbersAreGivenAgain) {
  for (const uint32_t given :
       {uint32_t{0}, (uint32_t{1} << kThreadNumberBits) - 5, (uint32_t{1} << kThreadNumberBits) - 4,
        (uint32_t{1} << kThreadNumberBits) - 3, (uint32_t{1} << kThreadNumberBits) - 2,
        (uint32_t{1} << kThreadNumberBits) - 1, uint32_t{1} << kThreadNumberBits}) {
    ThreadNumbers numbers(given);
    const uint32_t early = numbers.New();
    numbers.NoteFork();
    const uint32_t late = numbers.New();
    EXPECT_FALSE(numbers.IsOfForkedParent(late));
    EXPECT_EQ(InChild([&] {
                numbers.NoteFork();
                for (int i = 0; i < 5; ++i) {
                  if (!numbers.IsOfForkedParent(early) || !numbers.IsOfForkedParent(late)) return 1;
                  if (numbers.IsOfForkedParent(numbers.New())) return 2;
                }
                numbers.ForgetFork();
                return numbers.IsOfForkedParent(late) ? 3 : 0;
              }),
              0);
    numbers.ForgetFork();
  }
}

}  // namespace
}  // namespace tcmalloc
