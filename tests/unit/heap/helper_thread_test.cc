// SPDX-License-Identifier: BSD-3-Clause
// The tests run in child processes, since a helper thread never ends.
// tests/process/profiles/reports_test.py tests the reports themselves.
#include "heap/helper_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "os/clock.h"
#include "testing/sanitizers.h"

namespace tcmalloc {
namespace {

std::atomic<int> intervals{0};
std::atomic<int> signals{0};
std::atomic<int> others{0};

void OnTask(int signal) { (signal == 0 ? intervals : signals).fetch_add(1); }

HelperTask two_kinds = {
    .interval_ms = 10, .signals = SignalBit(SIGUSR1) | SignalBit(64), .run = &OnTask};
HelperTask other = {.interval_ms = 0,
                    .signals = SignalBit(SIGUSR2) | SignalBit(SIGTERM),
                    .run = [](int) { others.fetch_add(1); }};

void WaitFor(const std::atomic<int>& count, int n) {
  // If the count stays lower, the time limit of the test ends this loop.
  while (count.load() < n) WaitMillisecond();
}

#define REQUIRE(condition) \
  if (!(condition)) _exit(__LINE__ % 100 + 100)

// The main thread blocks no signals, so it receives them.
TEST(HelperThreadDeathTest, IntervalsAndSignals) {
  EXPECT_EXIT(
      {
        REQUIRE(AddHelperTask(&two_kinds) && AddHelperTask(&other));
        for (const int signal : {SIGUSR1, SIGUSR2, 64}) REQUIRE(HandleSignalInHelper(signal));
        WaitFor(intervals, 3);
        REQUIRE(signals.load() == 0 && others.load() == 0);
        raise(SIGUSR1);
        WaitFor(signals, 1);
        raise(64);
        WaitFor(signals, 2);
        raise(SIGUSR2);
        WaitFor(others, 1);
        REQUIRE(signals.load() == 2);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(HelperThreadDeathTest, AnEndingSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        REQUIRE(AddHelperTask(&other) && HandleSignalInHelper(SIGTERM));
        // Another task uses the same signal.
        REQUIRE(HandleSignalInHelper(SIGTERM));
        raise(SIGTERM);
        _exit(1);
      },
      testing::KilledBySignal(SIGTERM), "");
}

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

TEST(HelperThreadDeathTest, AForkedChildHasOneOfItsOwn) {
#if TESTED_WITH_TSAN
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that creates a thread";
#endif
  EXPECT_EXIT(
      {
        REQUIRE(AddHelperTask(&two_kinds) && HandleSignalInHelper(SIGUSR1));
        const pid_t child = fork();
        if (child == 0) {
          // The library's handlers around fork are not installed in this program.
          RestartHelperInChild();
          intervals.store(0);
          WaitFor(intervals, 2);
          raise(SIGUSR1);
          WaitFor(signals, 1);
          _exit(0);
        }
        int status = 1;
        REQUIRE(waitpid(child, &status, 0) == child && status == 0);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(HelperThreadDeathTest, NotMoreTasksThanPlaces) {
  EXPECT_EXIT(
      {
        int added = 0;
        while (AddHelperTask(&other)) ++added;
        REQUIRE(added == 8);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tcmalloc
