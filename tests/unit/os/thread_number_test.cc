// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_number.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <latch>
#include <set>
#include <thread>
#include <vector>

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

TEST(ThreadNumberTest, AChildKnowsThreadsOfItsParent) {
  const auto number_of_new_thread = [] {
    uint32_t number = 0;
    std::thread([&] { number = ThisThreadNumber(); }).join();
    return number;
  };
  NoteFork();
  const uint32_t of_parent = number_of_new_thread();
  EXPECT_FALSE(IsOfForkedParent(of_parent));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    NoteFork();
    if (!IsOfForkedParent(of_parent)) _exit(1);
    for (int i = 0; i < 2; ++i) {
      if (IsOfForkedParent(number_of_new_thread())) _exit(2);
    }
    if (!IsOfForkedParent(of_parent)) _exit(3);
    ForgetFork();
    _exit(IsOfForkedParent(of_parent) ? 4 : 0);
  }
  ForgetFork();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace tcmalloc
