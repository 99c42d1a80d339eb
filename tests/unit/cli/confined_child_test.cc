// SPDX-License-Identifier: BSD-3-Clause
// If the child that parses a file fails in any way, answers are lost, and nothing else.
#include "image/confined_child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "image/image.h"
#include "image/open_file.h"
#include "testing/fake_tree.h"
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

TEST(ConfinedChildTest, SaysWhyItFailed) {
  constexpr size_t kMuch = size_t{3} << 30;
  const struct {
    Answer answer;
    Limits limits;
    const char* problem;
  } kCases[] = {
      {[](const std::string& text) {
         raise(SIGSEGV);
         return text;
       },
       {},
       "its reader was killed by signal 11"},
      {[](const std::string&) -> std::string { _exit(0); }, {}, "its reader failed"},
      {[](const std::string&) -> std::string { throw Failure("no"); }, {}, "its reader failed"},
      // AddressSanitizer's malloc ends the process instead of throwing std::bad_alloc.
      {[](const std::string&) { return std::to_string(std::string(kMuch, 'x').size()); },
       {.memory_bytes = uint64_t{64} << 20},
       TESTED_WITH_ASAN ? "its reader failed" : "reading it needs more than 64 MiB of memory"},
      {[](const std::string& text) {
         while (!text.empty()) asm volatile("" : : : "memory");
         return text;
       },
       {.cpu_seconds = 1},
       "reading it takes more than 1 seconds of CPU time"},
      {[](const std::string& text) {
         for (;;) pause();
         return text;
       },
       {.patience = std::chrono::milliseconds(10)},
       "reading it takes more than 0 seconds"},
  };
  for (const auto& [answer, limits, problem] : kCases) {
    ConfinedChild child = Child(answer, {.limits = limits});
    EXPECT_EQ(child.Ask("a"), std::nullopt) << problem;
    EXPECT_EQ(child.problem(), problem);
    EXPECT_EQ(child.Ask("a"), std::nullopt) << problem;
  }
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
  const auto open_other = [other] { return std::vector<int>{other}; };
  EXPECT_EQ(Child(answer, {.descriptors = {}, .open = open_other}).Ask(""), "other null");
  close(kept);
  close(other);
}

TEST(ConfinedChildTest, OfRootHasTheUsersRightsAndRootDirectory) {
  if (geteuid() != 0) GTEST_SKIP() << "this needs root";
  const tcmalloc::FakeTree empty;
  const int root = OpenDirectory(empty.root());
  const auto answer = [](const std::string& request) {
    if (!request.empty()) return std::to_string(getpid());
    const std::string rights = std::to_string(geteuid()) + " " + std::to_string(getegid()) + " " +
                               std::to_string(getgroups(0, nullptr));
    // The child cannot get back the rights that it gave up.
    return rights + (setuid(0) == 0 ? " root" : " user") +
           (access("/proc/self/exe", F_OK) == 0 ? " everywhere" : " below");
  };
  const struct {
    std::optional<User> user;
    const char* rights;
  } kCases[] = {{User{.user = 12345, .group = 2345}, "12345 2345 0 user below"},
                {User{.user = 12345, .group = 0}, "12345 65534 0 user below"},
                {User{.user = 0, .group = 0}, "65534 65534 0 user below"},
                {std::nullopt, "65534 65534 0 user below"}};
  for (const auto& [user, rights] : kCases) {
    ConfinedChild child = Child(answer, {.user = user, .root = root});
    EXPECT_EQ(child.Ask(""), rights);
    const std::string process = "/proc/" + child.Ask("pid").value_or("");
    std::ifstream file(process + "/status");
    const std::string status(std::istreambuf_iterator<char>(file), {});
    for (const char* const line : {"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
                                   "CapInh:\t0000000000000000", "NoNewPrivs:\t1"}) {
      EXPECT_NE(status.find(line), std::string::npos) << line << " is not in " << status;
    }
    // Three standard ones, the socket, and its own table of descriptors.
    EXPECT_EQ(NumbersIn(process + "/fd").size(), 5u);
  }
  close(root);
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
