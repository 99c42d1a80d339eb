// SPDX-License-Identifier: BSD-3-Clause
#include "os/log.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "testing/in_child.h"

namespace tcmalloc {
namespace {

TEST(LogTest, WritesToStderrOrDropsTheTextAndKeepsErrno) {
  testing::internal::CaptureStderr();
  WriteToStderr("one ");
  WriteToStderr("two\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one two\n");
  EXPECT_EQ(InChild([] {
              close(STDERR_FILENO);
              errno = 1234;
              WriteToStderr("lost");
              return errno == 1234 ? 0 : 1;
            }),
            0);
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
