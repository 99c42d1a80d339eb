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

TEST(ThreadNumberTest, AChildKnowsItsThreads) {
  uint32_t of_parent = 0;
  std::thread([&] { of_parent = ThisThreadNumber(); }).join();
  EXPECT_TRUE(NumberedInThisProcess(of_parent));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (NumberedInThisProcess(of_parent)) _exit(1);
    uint32_t of_child[2] = {};
    for (uint32_t& number : of_child) std::thread([&] { number = ThisThreadNumber(); }).join();
    for (const uint32_t number : of_child) {
      if (!NumberedInThisProcess(number)) _exit(2);
    }
    _exit(NumberedInThisProcess(of_parent) ? 3 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace tcmalloc
