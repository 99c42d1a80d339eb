// SPDX-License-Identifier: BSD-3-Clause
#include "os/process.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "testing/in_child.h"

namespace tcmalloc {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

// The variables that are visited when `environ` is this list, or the kernel's copy if it is null.
Variables Visited(char** list) {
  Variables variables;
  char** const own = std::exchange(environ, list);
  errno = 1234;
  ForEachEnvironmentVariable(
      [](const char* name, size_t name_length, const char* value, void* context) {
        static_cast<Variables*>(context)->emplace_back(std::string(name, name_length), value);
        errno = 99;  // the caller does not see this
      },
      &variables);
  EXPECT_EQ(errno, 1234);
  environ = own;
  return variables;
}

// Unusual entries that programs may pass on: without '=', without a name, with two '=', or present
// twice.
TEST(EnvironmentTest, ReadsOddEntries) {
  std::vector<std::string> entries = {"NORMAL=value", "EMPTY=",  "NOEQUALS", "=NONAME",
                                      "TWO=a=b",      "TWICE=1", "TWICE=2",  ""};
  std::vector<char*> list;
  for (std::string& entry : entries) list.push_back(entry.data());
  list.push_back(nullptr);
  EXPECT_EQ(Visited(list.data()), (Variables{{"NORMAL", "value"},
                                             {"EMPTY", ""},
                                             {"", "NONAME"},
                                             {"TWO", "a=b"},
                                             {"TWICE", "1"},
                                             {"TWICE", "2"}}));
}

// Before the C library is ready, it has no list: the kernel's copy is read, in several pieces.
// Entries beyond 1 MiB are ignored.
TEST(EnvironmentTest, ReadsTheKernelsCopyUpToALimit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // starts the program anew
  for (int i = 0; i < 12; ++i) {
    const std::string name = "LONG" + std::to_string(i);
    ASSERT_EQ(setenv(name.c_str(), std::string(100'000, 'x').c_str(), 1), 0);
  }
  const auto check = [] {
    const Variables all = Visited(environ);
    const Variables copy = Visited(nullptr);
    if (copy.size() < 10 || copy.size() >= all.size()) return 1;
    // The last one may be cut off.
    return std::equal(copy.begin(), copy.end() - 1, all.begin()) ? 0 : 2;
  };
  EXPECT_EXIT(_exit(check()), testing::ExitedWithCode(0), "");
}

TEST(EnvironmentTest, OfAParentIsUnknownWithoutItsFirstThread) {
  const auto ask = [] { return InChild([] { return ParentWasStartedWith("X Y", "") ? 1 : 0; }); };
  EXPECT_EQ(ask(), 0);
  EXPECT_EQ(InChildWithoutFirstThread(ask), 1);
}

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
