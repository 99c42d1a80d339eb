// SPDX-License-Identifier: BSD-3-Clause
#include "os/log.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "base/check.h"
#include "testing/thread_state.h"

namespace tcmalloc {
namespace {

TEST(LogTest, WritesToStderr) {
  testing::internal::CaptureStderr();
  WriteToStderr("one ");
  WriteToStderr("");
  WriteToStderr("two\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one two\n");
}

// A pipe has room for 64 KiB; then the writer sleeps. One signal interrupts the system call after a
// part of the text was written. A second one interrupts it while the pipe is full, before any text
// was written. All of the text arrives.
TEST(LogTest, WritesAllOfALongTextAlsoWhenSignalsInterruptIt) {
  struct sigaction action = {};
  struct sigaction old_action;
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &old_action), 0);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i);
  const int saved = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  std::atomic<pid_t> id{0};
  std::thread writer([&] {
    id = ThisThreadId();
    WriteToStderr(text);
    // The write end is closed: the reader sees the end.
    dup2(saved, STDERR_FILENO);
  });
  while (id == 0) sched_yield();
  WaitUntilAsleep(id);
  InterruptSleep(id, writer.native_handle(), SIGUSR1);
  InterruptSleep(id, writer.native_handle(), SIGUSR1);
  std::string received;
  char buffer[1000];
  ssize_t n;
  while ((n = read(ends[0], buffer, sizeof(buffer))) > 0) {
    received.append(buffer, static_cast<size_t>(n));
  }
  writer.join();
  close(saved);
  close(ends[0]);
  sigaction(SIGUSR1, &old_action, nullptr);
  EXPECT_EQ(received.size(), text.size());
  EXPECT_TRUE(received == text);
}

TEST(LogTest, DropsUnwritableTextAndKeepsErrno) {
  const pid_t child = fork();
  if (child == 0) {
    close(STDERR_FILENO);
    errno = 1234;
    WriteToStderr("lost");
    _exit(errno == 1234 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(LogDeathTest, AbortWithPrintsAndAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(AbortWith("last words\n"), testing::KilledBySignal(SIGABRT), "^last words\n");
}

// Prints the line that a core dump contains.
void PrintAbortLine(int) {
  WriteToStderr("kept: ");
  WriteToStderr(abort_line);
  _exit(3);
}

TEST(LogDeathTest, AbortWithKeepsTheLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_STREQ(abort_line, "");
  EXPECT_EXIT((signal(SIGABRT, &PrintAbortLine), AbortWith("last words\n")),
              testing::ExitedWithCode(3), "kept: last words\n$");
  const std::string longer(2 * kAbortLineBytes, 'w');
  EXPECT_EXIT((signal(SIGABRT, &PrintAbortLine), AbortWith(longer)), testing::ExitedWithCode(3),
              "kept: w{" + std::to_string(kAbortLineBytes - 1) + "}$");
}

TEST(LogDeathTest, CheckFailedPrintsOneLineAndCutsOffALongOne) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(CheckFailed("some/file.cc", 42, "x < y"), testing::KilledBySignal(SIGABRT),
              "^tcmalloc: some/file\\.cc:42: check failed: x < y\n");
  const std::string condition(2000, 'c');
  EXPECT_EXIT(CheckFailed("file.cc", 1, condition.c_str()), testing::KilledBySignal(SIGABRT),
              "^tcmalloc: file\\.cc:1: check failed: c+");
}

}  // namespace
}  // namespace tcmalloc
