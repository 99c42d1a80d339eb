// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_number.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

constinit ForkWitness witness;

// Returns 0 if all checks succeed, else the number of the failed one.
int CheckChild(int forks_left) {
  if (!witness.InChild()) return 1;
  // A signal handler that forks calls Begin again.
  witness.Begin();
  if (!witness.InChild()) return 2;
  witness.End();
  if (witness.InChild()) return 3;
  if (forks_left == 0) return 0;
  witness.Begin();
  if (witness.InChild()) return 4;
  const int result = InChild([=] { return CheckChild(forks_left - 1); });
  if (witness.InChild()) return 5;
  witness.End();
  return result;
}

TEST(ForkWitnessTest, TellsTheChildFromItsParent) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(witness.InChild());
    witness.Begin();
    EXPECT_FALSE(witness.InChild());
    EXPECT_EQ(InChild([] { return CheckChild(2); }), 0);
    EXPECT_FALSE(witness.InChild());
    witness.End();
  }
}

TEST(ForkWitnessTest, WatchesForAnyChild) {
  constinit static ForkWitness own;
  const std::atomic<uint32_t>* const word = own.Watch();
  if (word == nullptr) GTEST_SKIP() << "SKIP: the kernel has no pages that it clears in children";
  EXPECT_EQ(*word, 1u);
  EXPECT_EQ(own.Watch(), word);
  const auto raw_child_sees = [word] {
    const long child = syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0) _exit(static_cast<int>(word->load()));
    int status = -1;
    waitpid(static_cast<pid_t>(child), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  };
  EXPECT_EQ(raw_child_sees(), 0);
  const int result = InChild([&] {
    if (*word != 0) return 1;
    // The word says nothing about the fork.
    own.Begin();
    if (*word != 0 || own.InChild()) return 2;
    if (own.Watch() != word || *word != 1) return 3;
    return raw_child_sees() == 0 ? 0 : 4;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(*word, 1u);
}

}  // namespace

}  // namespace tcmalloc
