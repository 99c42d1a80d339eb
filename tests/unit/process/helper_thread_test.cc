// SPDX-License-Identifier: BSD-3-Clause
// The tests run in child processes, since a helper thread never ends.
// tests/process/profiles/reports_test.py tests the reports themselves.
#include "process/helper_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

namespace tcmalloc {
namespace {

std::atomic<int> others{0};

HelperTask other = {.interval_ms = 0,
                    .signals = SignalBit(SIGUSR2) | SignalBit(SIGTERM),
                    .run = [](int) { others.fetch_add(1); }};

#define REQUIRE(condition) \
  if (!(condition)) _exit(__LINE__ % 100 + 100)

// A child that was forked without handlers has no helper: the signal has its default effect.
TEST(HelperThreadDeathTest, AChildWithoutHelper) {
  EXPECT_EXIT(
      {
        REQUIRE(AddHelperTask(&other) && HandleSignalInHelper(SIGTERM));
        REQUIRE(HandleSignalInHelper(SIGUSR2));
        // (Uses the system call because the C library's fork calls the handlers.)
        const pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
        if (child == 0) {
          // (raise would take the thread's number from the parent.)
          kill(getpid(), SIGUSR2);
          kill(getpid(), SIGTERM);
          _exit(1);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        REQUIRE(others.load() == 0);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tcmalloc
