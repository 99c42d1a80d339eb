// SPDX-License-Identifier: BSD-3-Clause
#include "os/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

namespace tcmalloc {
namespace {

using Variables = std::multimap<std::string, std::string>;

Variables Visited() {
  Variables variables;
  ForEachEnvironmentVariable(
      [](const char* name, size_t name_length, const char* value, void* context) {
        static_cast<Variables*>(context)->emplace(std::string(name, name_length), value);
      },
      &variables);
  return variables;
}

// The output of environment_child, started with `environment`.
std::string ChildLists(const char* argument, std::vector<std::string> environment) {
  std::vector<char*> pointers;
  for (std::string& entry : environment) pointers.push_back(entry.data());
  pointers.push_back(nullptr);
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execle(ENVIRONMENT_CHILD, ENVIRONMENT_CHILD, argument, nullptr, pointers.data());
    _exit(127);
  }
  close(ends[1]);
  std::string output;
  char buffer[4096];
  ssize_t n;
  while ((n = read(ends[0], buffer, sizeof(buffer))) > 0) output.append(buffer, n);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return output;
}

TEST(EnvironmentTest, VisitsAllThatTheCLibraryKnows) {
  Variables expected;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    expected.emplace(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
  }
  EXPECT_EQ(Visited(), expected);
}

// Unusual entries that programs may pass on: without '=', without a name, with two '=', or present
// twice.
const std::vector<std::string> kOddEnvironment = {"NORMAL=value", "EMPTY=",  "NOEQUALS", "=NONAME",
                                                  "TWO=a=b",      "TWICE=1", "TWICE=2",  ""};
constexpr char kOddListing[] =
    "NORMAL[6]=value[5]\n"
    "EMPTY[5]=[0]\n"
    "[0]=NONAME[6]\n"
    "TWO[3]=a=b[3]\n"
    "TWICE[5]=1[1]\n"
    "TWICE[5]=2[1]\n";

// Before the C library is ready, it has no list: the kernel's copy is read.
TEST(EnvironmentTest, ReadsOddEntriesFromBothLists) {
  EXPECT_EQ(ChildLists("environ", kOddEnvironment), kOddListing);
  EXPECT_EQ(ChildLists("kernel", kOddEnvironment), kOddListing);
  EXPECT_EQ(ChildLists("kernel", {}), "");
}

// Reading the file takes more than one read. Entries beyond 1 MiB are ignored, and those before are
// complete.
TEST(EnvironmentTest, SurvivesAnEnvironmentThatIsTooLong) {
  std::vector<std::string> environment = {"FIRST=1"};
  for (int i = 0; i < 10; ++i) environment.push_back("LONG=" + std::string(120'000, 'x'));
  environment.push_back("LAST=1");
  const std::string listing = ChildLists("kernel", environment);
  EXPECT_EQ(listing.rfind("FIRST[5]=1[1]\nLONG[4]=xxxxxxxxxxxxxxxxxxxx[120000]\n", 0), 0u);
  EXPECT_EQ(listing.find("LAST"), std::string::npos);
}

}  // namespace
}  // namespace tcmalloc
