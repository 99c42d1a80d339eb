// SPDX-License-Identifier: BSD-3-Clause
#include "os/fork_witness.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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
  const pid_t child = fork();
  if (child == 0) _exit(CheckChild(forks_left - 1));
  if (witness.InChild()) return 5;
  witness.End();
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 6;
  return WEXITSTATUS(status);
}

TEST(ForkWitnessTest, TellsTheChildFromItsParent) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(witness.InChild());
    witness.Begin();
    EXPECT_FALSE(witness.InChild());
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(CheckChild(2));
    }
    EXPECT_FALSE(witness.InChild());
    witness.End();
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

}  // namespace
}  // namespace tcmalloc
