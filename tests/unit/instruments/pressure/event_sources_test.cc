// SPDX-License-Identifier: BSD-3-Clause
// tests/process/pressure has processes that listen to a FIFO and to a socket.
#include "instruments/pressure/event_sources.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <sstream>
#include <string>

#include "instruments/pressure/figures.h"
#include "os/cgroup.h"
#include "testing/cancelled.h"
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
  std::istringstream words(
      "some: some:200ms some:/2s some:200/2s some:200ms/2 some:0ms/2s some:3s/2s some:1us/0s "
      "none:200ms/2s some:-1ms/2s some:0.2s/2s some:200ms/2s/ some:200ms/11s some:1us/10000001us "
      "some:200ms/2m some:4294967297us/2s some:18446744073709551617us/2s");
  for (std::string word; words >> word;) EXPECT_EQ(ParseTrigger(word), std::nullopt) << word;
  for (const char* const text : {"", " some:200ms/2s", "some:200ms/2s "}) {
    EXPECT_EQ(ParseTrigger(text), std::nullopt) << text;
  }
  PsiTrigger kept = kTrigger;
  EXPECT_FALSE(ParsePsiTrigger("full:1ms/x", &kept));
  EXPECT_EQ(kept, kTrigger);
}

std::optional<MemoryEvents> ParseEvents(std::string_view text) {
  MemoryEvents events;
  return ParseMemoryEvents(text, &events) ? std::optional(events) : std::nullopt;
}

TEST(MemoryEventsTest, Values) {
  EXPECT_EQ(ParseEvents("low 0\nhigh 12\nmax 7\noom 0\noom_kill 0\noom_group_kill 0\n"),
            (MemoryEvents{12, 7}));
  EXPECT_EQ(ParseEvents("high 0\n"), (MemoryEvents{0, 0}));
  EXPECT_EQ(ParseEvents("max 18446744073709551615"), (MemoryEvents{0, UINT64_MAX}));
  EXPECT_EQ(ParseEvents("highest 3\nhigh 4\nhigh_ 5\n"), (MemoryEvents{4, 0}));
  // Malformed lines are skipped, the rest is read.
  EXPECT_EQ(ParseEvents("\n\nhigh x\nmax 7\n"), (MemoryEvents{0, 7}));
  for (const char* const bad : {"", "\n", "low 0\n", "high\n", "high \n", "high -1\n",
                                "highmax 1\n", "high 18446744073709551616\n", "high 1 max 2\n"}) {
    EXPECT_FALSE(ParseEvents(bad).has_value()) << bad;
  }
}

TEST(OpenMemoryEventsTest, ReadsAgain) {
  const FakeTree tree;
  tree.Write("/g/memory.events", "low 0\nhigh 1\nmax 2\n");
  const int fd = OpenMemoryEvents(tree.root() + "/g");
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(IsClosedByExec(fd));
  EXPECT_TRUE(NeverBlocks(fd));
  EXPECT_EQ(ReadMemoryEvents(fd), (MemoryEvents{1, 2}));
  EXPECT_EQ(ReadMemoryEvents(fd), (MemoryEvents{1, 2}));
  tree.Write("/g/memory.events", "low 0\nhigh 3\nmax 2\n");
  EXPECT_EQ(ReadMemoryEvents(fd), (MemoryEvents{3, 2}));
  // The file is longer than the buffer, but no number is truncated.
  tree.Write("/g/memory.events", "high 4\n" + std::string(498, 'x') + "\nmax 123456\n");
  EXPECT_EQ(ReadMemoryEvents(fd), (MemoryEvents{4, 0}));
  tree.Write("/g/memory.events", "");
  EXPECT_FALSE(ReadMemoryEvents(fd).has_value());
  close(fd);
  errno = 77;
  EXPECT_FALSE(ReadMemoryEvents(fd).has_value());
  EXPECT_EQ(errno, 77);
}

// "some 200000 2000000" and a final zero.
constexpr char kTriggerBase64[] = "c29tZSAyMDAwMDAgMjAwMDAwMAA=";
const std::string kTriggerBytes("some 200000 2000000\0", 20);

class PressureWatchTest : public testing::Test {
 protected:
  PressureWatchTest() { errno = 77; }
  ~PressureWatchTest() override {
    EXPECT_EQ(errno_after_, 77);
    EXPECT_EQ(NumDescriptors(), before_);
  }

  PressureWatch Open(const std::string& path, const char* write = kTriggerBase64) {
    return OpenRaw((tree_.root() + path).c_str(), write);
  }
  PressureWatch OpenRaw(const char* watch, const char* write = kTriggerBase64) {
    errno = 77;
    const PressureWatch watched = OpenPressureWatch(watch, write);
    if (errno_after_ == 77) errno_after_ = errno;
    EXPECT_EQ(watched.fd >= 0, watched.kind != PressureWatchKind::kOff);
    if (watched.fd >= 0) {
      EXPECT_EQ(watched.error, 0);
      EXPECT_TRUE(IsClosedByExec(watched.fd));
      EXPECT_TRUE(NeverBlocks(watched.fd));
    }
    return watched;
  }
  // Returns the error of a watch that must fail.
  int ErrorOf(const std::string& path, const char* write = kTriggerBase64) {
    const PressureWatch watched = Open(path, write);
    EXPECT_EQ(watched.fd, -1);
    return watched.error;
  }

  const FakeTree tree_;

 private:
  const int before_ = NumDescriptors();
  int errno_after_ = 77;
};

TEST_F(PressureWatchTest, IsOff) {
  for (const char* const watch : {static_cast<const char*>(nullptr), "", "/dev/null"}) {
    for (const char* const write : {static_cast<const char*>(nullptr), "", "no base64"}) {
      const PressureWatch watched = OpenRaw(watch, write);
      EXPECT_EQ(watched.kind, PressureWatchKind::kOff);
      EXPECT_EQ(watched.error, 0);
      EXPECT_EQ(watched.fd, -1);
    }
  }
}

// The trigger may have any bytes, up to a limit. A PSI file without a trigger is an error, because
// poll would report it forever.
TEST_F(PressureWatchTest, ARegularFileIsAPsiFile) {
  std::string longest(kMaxPressureWrite / 3 * 4, 'A');
  const std::pair<const char*, std::string> kTriggers[] = {
      {kTriggerBase64, kTriggerBytes},
      {"//4A", std::string("\xff\xfe\0", 3)},
      {longest.c_str(), std::string(kMaxPressureWrite / 3 * 3, '\0')}};
  for (const auto& [encoded, bytes] : kTriggers) {
    tree_.Write("/memory.pressure", "");
    const PressureWatch watched = Open("/memory.pressure", encoded);
    EXPECT_EQ(watched.kind, PressureWatchKind::kPsiFile);
    EXPECT_EQ(tree_.Read("/memory.pressure"), bytes);
    close(watched.fd);
  }
  EXPECT_EQ(ErrorOf("/memory.pressure", (longest + "AAAA").c_str()), EBADMSG);
  EXPECT_EQ(ErrorOf("/memory.pressure", nullptr), ENODATA);
  EXPECT_EQ(ErrorOf("/memory.pressure", ""), ENODATA);
}

// No other function of this folder that opens or reads a file is a cancellation point either.
TEST_F(PressureWatchTest, IsNoCancellationPoint) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = ""};
  strncpy(address.sun_path, tree_.Path("/socket").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 5), 0);
  ASSERT_EQ(mkfifo(tree_.Path("/fifo").c_str(), 0600), 0);
  for (const char* const file : {"/memory.pressure", "/cgroup.event_control", "/memory.events",
                                 "/memory.usage_in_bytes", "/memory.pressure_level"}) {
    tree_.Write(file, "high 1\n");
  }
  const std::string root = tree_.root();
  CgroupDirectories directories;
  std::vector<int> fds;
  EXPECT_TRUE(IsNoCancellationPoint([&] {
    for (const char* const path : {"/socket", "/fifo"}) {
      fds.push_back(OpenPressureWatch(path, kTriggerBase64, root).fd);
      DiscardInput(fds.back());
    }
    fds.push_back(OpenPressureWatch("/memory.pressure", kTriggerBase64, root).fd);
    fds.push_back(OpenPsiTrigger(root, kCgroupPsiFile, {.stall_us = 1, .window_us = 2}));
    fds.push_back(OpenMemoryThreshold(root, 1));
    fds.push_back(OpenMemoryPressureLevel(root, MemoryPressureLevel::kLow));
    fds.push_back(OpenMemoryEvents(root));
    ReadMemoryEvents(fds.back());
    ReadProcessAnonymousBytes();
    ReadSystemMemory();
    FindCgroupDirectories(&directories);
    ReadCgroupAnonymousBytes(CgroupVersion::kV2, directories.v2);
  }));
  EXPECT_EQ(fds.size(), 7U);
  for (const int fd : fds) {
    EXPECT_GE(fd, 0);
    close(fd);
  }
  close(listener);
}

// A writer that never ends does not block the reader forever.
TEST(DiscardInputTest, ReadsOnlyAPart) {
  const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(zeros, 0);
  EXPECT_TRUE(DiscardInput(zeros));
  close(zeros);
  errno = 77;
  EXPECT_FALSE(DiscardInput(zeros));
  EXPECT_EQ(errno, 77);
}

}  // namespace
}  // namespace tcmalloc
