// SPDX-License-Identifier: BSD-3-Clause
// If the child that parses a file fails in any way, answers are lost, and nothing else.
#include "image/confined_child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "image/image.h"
#include "image/open_file.h"
#include "testing/sanitizers.h"

namespace cli {
namespace {

using Answer = ConfinedChild::Answer;

// A child that answers each request by `answer`.
ConfinedChild Child(const Answer& answer, const Confinement& confinement = {}) {
  return ConfinedChild(confinement, [answer] { return answer; });
}

TEST(ConfinedChildTest, Answers) {
  ConfinedChild child = Child([](const std::string& text) { return text + text; });
  EXPECT_EQ(child.Ask("ab"), "abab");
  EXPECT_EQ(child.Ask(""), "");
  const std::string large(1 << 20, 'x');
  EXPECT_EQ(child.Ask(large.substr(0, 1000)), large.substr(0, 2000));
  EXPECT_EQ(child.problem(), "");
}

TEST(ConfinedChildTest, ThatCrashes) {
  ConfinedChild child = Child([](const std::string& text) {
    if (text == "crash") raise(SIGSEGV);
    return text;
  });
  EXPECT_EQ(child.Ask("a"), "a");
  EXPECT_EQ(child.Ask("crash"), std::nullopt);
  EXPECT_EQ(child.problem(), "its reader was killed by signal 11");
  EXPECT_EQ(child.Ask("a"), std::nullopt);
}

TEST(ConfinedChildTest, ThatExitsOrFails) {
  ConfinedChild exits = Child([](const std::string&) -> std::string { _exit(0); });
  EXPECT_EQ(exits.Ask("a"), std::nullopt);
  EXPECT_EQ(exits.problem(), "its reader failed");
  ConfinedChild throws = Child([](const std::string&) -> std::string { throw Failure("no"); });
  EXPECT_EQ(throws.Ask("a"), std::nullopt);
  EXPECT_EQ(throws.problem(), "its reader failed");
}

TEST(ConfinedChildTest, ThatNeedsMuchMemory) {
  ConfinedChild child = Child(
      [](const std::string&) { return std::to_string(std::string(size_t{3} << 30, 'x').size()); },
      {.limits = {.memory_bytes = uint64_t{64} << 20}});
  EXPECT_EQ(child.Ask("a"), std::nullopt);
  // AddressSanitizer's malloc ends the process instead of throwing std::bad_alloc.
  EXPECT_EQ(child.problem(),
            TESTED_WITH_ASAN ? "its reader failed" : "reading it needs more than 64 MiB of memory");
}

TEST(ConfinedChildTest, ThatMayUseMore) {
  ConfinedChild child = Child(
      [](const std::string&) {
        ConfinedChild::AllowMemory(uint64_t{200} << 20);
        return std::to_string(std::string(size_t{100} << 20, 'x').size());
      },
      {.limits = {.memory_bytes = uint64_t{64} << 20}});
  EXPECT_EQ(child.Ask("a"), std::to_string(size_t{100} << 20));
}

TEST(ConfinedChildTest, ThatComputesForEver) {
  ConfinedChild child = Child(
      [](const std::string& text) {
        while (!text.empty()) asm volatile("" : : : "memory");
        return text;
      },
      {.limits = {.cpu_seconds = 1}});
  EXPECT_EQ(child.Ask("a"), std::nullopt);
  EXPECT_EQ(child.problem(), "reading it takes more than 1 seconds of CPU time");
}

TEST(ConfinedChildTest, ThatWaitsForEver) {
  ConfinedChild child = Child(
      [](const std::string& text) {
        for (;;) pause();
        return text;
      },
      {.limits = {.patience = std::chrono::milliseconds(10)}});
  EXPECT_EQ(child.Ask("a"), std::nullopt);
  EXPECT_EQ(child.problem(), "reading it takes more than 0 seconds");
}

TEST(ConfinedChildTest, HasNothingOfThisProgram) {
  const int kept = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const int other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const auto answer = [kept, other](const std::string&) {
    const auto is = [](int descriptor, const char* path) {
      struct stat status = {};
      struct stat of_path = {};
      return fstat(descriptor, &status) == 0 && stat(path, &of_path) == 0 &&
             status.st_rdev == of_path.st_rdev;
    };
    return std::string(is(kept, "/dev/zero") ? "kept " : "") +
           (is(other, "/dev/zero") ? "other " : "") +
           (is(STDOUT_FILENO, "/dev/null") ? "null" : "output");
  };
  EXPECT_EQ(Child(answer, {.descriptors = {kept}}).Ask(""), "kept null");
  EXPECT_EQ(Child(answer, {.all_descriptors = true}).Ask(""), "kept other null");
  close(kept);
  close(other);
}

TEST(ConfinedChildTest, OfRootHasTheUsersRightsAndRootDirectory) {
  if (geteuid() != 0) GTEST_SKIP() << "this needs root";
  const std::string folder = testing::TempDir() + "confined_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const int root = OpenDirectory(folder);
  const auto answer = [](const std::string&) {
    const std::string rights = std::to_string(geteuid()) + " " + std::to_string(getegid()) + " " +
                               std::to_string(getgroups(0, nullptr));
    // The child cannot get back the rights that it gave up.
    return rights + (setuid(0) == 0 ? " root" : " user") +
           (access("/proc/self/exe", F_OK) == 0 ? " everywhere" : " below");
  };
  EXPECT_EQ(Child(answer, {.user = User{.user = 12345, .group = 2345}, .root = root}).Ask(""),
            "12345 2345 0 user below");
  close(root);
  std::filesystem::remove_all(folder);
}

TEST(ConfinedChildTest, EndsWithItsObject) {
  pid_t pid = 0;
  {
    ConfinedChild child = Child([](const std::string&) { return std::to_string(getpid()); });
    pid = std::stoi(child.Ask("").value_or("0"));
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0);
}

}  // namespace
}  // namespace cli
