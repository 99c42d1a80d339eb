// SPDX-License-Identifier: BSD-3-Clause
#include "tools/pressure/os/psi.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "testing/cancelled.h"
#include "testing/fake_tree.h"
#include "testing/in_child.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr PsiTrigger kTrigger = {.full = false, .stall_us = 200'000, .window_us = 2'000'000};

std::optional<PsiTrigger> ParseTrigger(std::string_view text) {
  PsiTrigger trigger;
  return ParsePsiTrigger(text, &trigger) ? std::optional(trigger) : std::nullopt;
}

std::string Written(const PsiTrigger& trigger) {
  char buffer[64];
  TextWriter text(buffer, sizeof(buffer));
  WritePsiTrigger(trigger, &text);
  return std::string(text.text());
}

TEST(PsiTriggerTest, Values) {
  EXPECT_EQ(ParseTrigger("some:200ms/2s"), kTrigger);
  EXPECT_EQ(ParseTrigger("some:200000us/2000000us"), kTrigger);
  EXPECT_EQ(ParseTrigger("full:1us/500ms"), (PsiTrigger{true, 1, 500'000}));
  EXPECT_EQ(ParseTrigger("some:10s/10s"), (PsiTrigger{false, 10'000'000, 10'000'000}));
  EXPECT_EQ(ParseTrigger("full:0001s/0002s"), (PsiTrigger{true, 1'000'000, 2'000'000}));
}

TEST(PsiTriggerTest, RejectsOtherText) {
  for (const char* const text :
       {"", ":", "some", "some:", "some:/", "some:200ms", "some:200ms/", "some:/2s", "some:200/2s",
        "some:200ms/2", "some:ms/s", "some:0ms/2s", "some:3s/2s", "some:1us/0s", "none:200ms/2s",
        "SOME:200ms/2s", " some:200ms/2s", "some:200ms/2s ", "some: 200ms/2s", "some:200 ms/2s",
        "some:-1ms/2s", "some:0.2s/2s", "some:200ms/2s/", "some:200ms/2s:", "some:200ms/11s",
        "some:10001ms/10s", "some:1us/10000001us", "some:200ms/2m", "some:200ms/2sec",
        "some:200msec/2s", "somefull:200ms/2s", "some,full:200ms/2s",
        // An overflow would make these numbers smaller.
        "some:4294967297us/2s", "some:1us/4294967297s", "some:18446744073709551617us/2s",
        "some:4295s/10s", "some:1ms/18446744073710s"}) {
    EXPECT_EQ(ParseTrigger(text), std::nullopt) << text;
  }
  PsiTrigger kept = kTrigger;
  EXPECT_FALSE(ParsePsiTrigger("full:1ms/x", &kept));
  EXPECT_EQ(kept, kTrigger);
}

TEST(PsiTriggerTest, WritesTheKernelsFormat) {
  EXPECT_EQ(Written(kTrigger), "some 200000 2000000");
  EXPECT_EQ(Written({.full = true, .stall_us = 1, .window_us = 500'000}), "full 1 500000");
  // The kernel reads at most 32 bytes.
  EXPECT_LT(Written({.full = true, .stall_us = UINT32_MAX, .window_us = UINT32_MAX}).size(), 32u);
}

// Writes the text and a final zero, in whose place the kernel puts one.
TEST(OpenPsiTriggerTest, WritesTheTrigger) {
  const FakeTree tree;
  tree.Write("/proc/pressure/memory", "");
  const int before = NumDescriptors();
  errno = 77;
  const int fd = OpenPsiTrigger(tree.root(), kSystemPsiFile, kTrigger);
  EXPECT_EQ(errno, 77);
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(IsClosedByExec(fd));
  EXPECT_TRUE(NeverBlocks(fd));
  EXPECT_EQ(tree.Read("/proc/pressure/memory"), std::string("some 200000 2000000\0", 20));
  close(fd);
  EXPECT_EQ(NumDescriptors(), before);
}

TEST(OpenPsiTriggerTest, OfAGroup) {
  const FakeTree tree;
  tree.Write("/a/memory.pressure", "");
  const int fd = OpenPsiTrigger(tree.root() + "/a", kCgroupPsiFile,
                                {.full = true, .stall_us = 1, .window_us = 2});
  ASSERT_GE(fd, 0);
  close(fd);
  EXPECT_EQ(tree.Read("/a/memory.pressure"), std::string("full 1 2\0", 9));
}

TEST(OpenPsiTriggerTest, ReturnsErrors) {
  const FakeTree tree;
  const int before = NumDescriptors();
  errno = 77;
  EXPECT_EQ(OpenPsiTrigger(tree.root(), kSystemPsiFile, kTrigger), -ENOENT);
  EXPECT_EQ(errno, 77);
  EXPECT_FALSE(std::filesystem::exists(tree.Path("/proc/pressure/memory")));
  EXPECT_EQ(OpenPsiTrigger(tree.root(), kSystemPsiFile, kTrigger), -ENOENT);
  // This file accepts no trigger.
  tree.WriteFull("/proc/pressure/memory");
  EXPECT_EQ(OpenPsiTrigger(tree.root(), kSystemPsiFile, kTrigger), -ENOSPC);
  EXPECT_EQ(OpenPsiTrigger("", "/", kTrigger), -EISDIR);
  // A path that is too long is never truncated to the path of another file.
  EXPECT_EQ(OpenPsiTrigger(std::string(4095, '/'), "proc/pressure/memory", kTrigger),
            -ENAMETOOLONG);
  EXPECT_EQ(NumDescriptors(), before);
}

TEST(OpenPsiTriggerTest, WithoutFileDescriptors) {
  const FakeTree tree;
  tree.Write("/proc/pressure/memory", "");
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  const rlimit limit{static_cast<rlim_t>(NextDescriptor()), old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const int fd = OpenPsiTrigger(tree.root(), kSystemPsiFile, kTrigger);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
  EXPECT_EQ(fd, -EMFILE);
}

TEST(OpenPsiTriggerTest, IsNoCancellationPoint) {
  const FakeTree tree;
  tree.Write("/proc/pressure/memory", "");
  int fd = -1;
  EXPECT_TRUE(
      IsNoCancellationPoint([&] { fd = OpenPsiTrigger(tree.root(), kSystemPsiFile, kTrigger); }));
  ASSERT_GE(fd, 0);
  close(fd);
}

// The kernel's own file accepts the trigger, and poll waits. Each of two descriptors may have a
// trigger.
TEST(OpenPsiTriggerTest, OfTheKernel) {
  const int fd = OpenPsiTrigger("", kSystemPsiFile, kTrigger);
  if (fd == -ENOENT || fd == -EACCES || fd == -EPERM || fd == -EOPNOTSUPP || fd == -EROFS) {
    GTEST_SKIP() << "the system has no PSI, or none for this user: error " << -fd;
  }
  ASSERT_GE(fd, 0) << "error " << -fd;
  const int other = OpenPsiTrigger("", kSystemPsiFile, kTrigger);
  ASSERT_GE(other, 0) << "error " << -other;
  // If the descriptor had no trigger, poll would report an error.
  pollfd polled = {.fd = fd, .events = POLLPRI, .revents = 0};
  ASSERT_GE(poll(&polled, 1, 0), 0);
  EXPECT_EQ(polled.revents & ~POLLPRI, 0);
  // A descriptor can have only one trigger.
  EXPECT_EQ(write(fd, "some 100000 2000000", 20), -1);
  EXPECT_EQ(errno, EBUSY);
  close(fd);
  close(other);
  // The kernel rejects this window.
  EXPECT_EQ(OpenPsiTrigger("", kSystemPsiFile, {.stall_us = 1, .window_us = kMaxPsiWindowUs + 1}),
            -EINVAL);
}

// Tests the windows that unprivileged processes may use.
TEST(OpenPsiTriggerTest, WithoutPrivileges) {
  const int result = InChild([] {
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return 1;
    const int fd = OpenPsiTrigger("", kSystemPsiFile,
                                  {.stall_us = 100'000, .window_us = kUnprivilegedPsiWindowUs});
    if (fd < 0) return 2;
    close(fd);
    return OpenPsiTrigger("", kSystemPsiFile, {.stall_us = 100'000, .window_us = 1'000'000}) ==
                   -EINVAL
               ? 0
               : 3;
  });
  if (result == 1) GTEST_SKIP() << "privileges cannot be given up";
  if (result == 2) GTEST_SKIP() << "the system has no PSI for users without privileges";
  EXPECT_EQ(result, 0);
}

TEST(PsiTriggerTest, SurvivesRandomText) {
  SeededRandom random(1920);
  static constexpr char kAlphabet[] = "someful:/ 0123456789";
  int taken = 0;
  for (int i = 0; i < 100'000; ++i) {
    // Half of the texts begin or end with a valid part.
    std::string made = random.OneIn(2) ? "some:" : "";
    for (size_t n = random.Below(8); n > 0; --n) made += kAlphabet[random.Below(20)];
    if (random.OneIn(2)) made += random.OneIn(2) ? "ms/2s" : "us/1000ms";
    const std::vector<char> text(made.begin(), made.end());
    const std::optional<PsiTrigger> trigger = ParseTrigger({text.data(), text.size()});
    if (!trigger.has_value()) continue;
    ++taken;
    ASSERT_GT(trigger->stall_us, 0u) << made;
    ASSERT_LE(trigger->stall_us, trigger->window_us) << made;
    ASSERT_LE(trigger->window_us, kMaxPsiWindowUs) << made;
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace tcmalloc
