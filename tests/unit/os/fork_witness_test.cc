// SPDX-License-Identifier: BSD-3-Clause
#include "os/fork_witness.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tcmalloc
