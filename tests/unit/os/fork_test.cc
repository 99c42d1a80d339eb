// SPDX-License-Identifier: BSD-3-Clause
#include "os/fork.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/in_child.h"

namespace tcmalloc {
namespace {

TEST(ForkWitnessTest, WatchesForAnyChild) {
  const std::atomic<uint32_t>* const word = WatchForCopies();
  if (word == nullptr) GTEST_SKIP() << "SKIP: the kernel has no pages that it clears in children";
  EXPECT_EQ(*word, 1u);
  EXPECT_EQ(WatchForCopies(), word);
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
    if (WatchForCopies() != word || *word != 1) return 2;
    return raw_child_sees() == 0 ? 0 : 3;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(*word, 1u);
}

}  // namespace
}  // namespace tcmalloc
