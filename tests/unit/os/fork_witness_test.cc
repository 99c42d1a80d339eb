// SPDX-License-Identifier: BSD-3-Clause
#include "os/fork_witness.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/in_child.h"

namespace tcmalloc {
namespace {

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
