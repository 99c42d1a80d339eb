// SPDX-License-Identifier: BSD-3-Clause
#include "tools/pressure/os/psi.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "testing/fake_tree.h"

namespace tcmalloc {
namespace {

constexpr PsiTrigger kTrigger = {.full = false, .stall_us = 200'000, .window_us = 2'000'000};

std::optional<PsiTrigger> ParseTrigger(std::string_view text) {
  PsiTrigger trigger;
  return ParsePsiTrigger(text, &trigger) ? std::optional(trigger) : std::nullopt;
}

TEST(PsiTriggerTest, Values) {
  EXPECT_EQ(ParseTrigger("some:200ms/2s"), kTrigger);
  EXPECT_EQ(ParseTrigger("some:200000us/2000000us"), kTrigger);
  EXPECT_EQ(ParseTrigger("full:1us/500ms"), (PsiTrigger{true, 1, 500'000}));
  EXPECT_EQ(ParseTrigger("some:10s/10s"), (PsiTrigger{false, 10'000'000, 10'000'000}));
  EXPECT_EQ(ParseTrigger("full:0001s/0002s"), (PsiTrigger{true, 1'000'000, 2'000'000}));
}

TEST(PsiTriggerTest, RejectsOtherText) {
  for (const char* const text : {"",
                                 "some:",
                                 "some:200ms",
                                 "some:/2s",
                                 "some:200/2s",
                                 "some:200ms/2",
                                 "some:0ms/2s",
                                 "some:3s/2s",
                                 "some:1us/0s",
                                 "none:200ms/2s",
                                 " some:200ms/2s",
                                 "some:200ms/2s ",
                                 "some:-1ms/2s",
                                 "some:0.2s/2s",
                                 "some:200ms/2s/",
                                 "some:200ms/11s",
                                 "some:1us/10000001us",
                                 "some:200ms/2m",
                                 "some:4294967297us/2s",
                                 "some:18446744073709551617us/2s"}) {
    EXPECT_EQ(ParseTrigger(text), std::nullopt) << text;
  }
  PsiTrigger kept = kTrigger;
  EXPECT_FALSE(ParsePsiTrigger("full:1ms/x", &kept));
  EXPECT_EQ(kept, kTrigger);
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
  tree.Write("/a/memory.pressure", "");
  close(OpenPsiTrigger(tree.root() + "/a", kCgroupPsiFile, {true, 1, 2}));
  EXPECT_EQ(tree.Read("/a/memory.pressure"), std::string("full 1 2\0", 9));
  EXPECT_EQ(NumDescriptors(), before);
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

}  // namespace
}  // namespace tcmalloc
