// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "instruments/pressure/event_sources.h"
#include "os/cgroup.h"
#include "testing/fake_tree.h"

namespace tcmalloc {
namespace {

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

// Tests FindCgroupDirectories.
constexpr char kV2Mount[] =
    "22 1 0:20 / /proc rw - proc proc rw\n"
    "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

class CgroupDirectoriesTest : public testing::Test {
 protected:
  // Returns "V1 V2", the directories without the root, or "none" if they cannot be read.
  std::string Find() {
    CgroupDirectories found;
    memset(&found, 'x', sizeof(found));
    if (!FindCgroupDirectories(&found, tree_.root())) {
      return *found.v1 == '\0' && *found.v2 == '\0' ? "none" : "not empty";
    }
    return Below(found.v1) + " " + Below(found.v2);
  }
  void MakeDirectory(const std::string& path) {
    std::filesystem::create_directories(tree_.root() + path);
  }

  const FakeTree tree_;

 private:
  std::string Below(const std::string& path) {
    if (path.empty()) return "-";
    EXPECT_TRUE(path.starts_with(tree_.root())) << path;
    return path.substr(tree_.root().size());
  }
};

TEST_F(CgroupDirectoriesTest, VersionTwo) {
  tree_.Write("/proc/self/cgroup", "0::/a/b\n");
  tree_.Write("/proc/self/mountinfo", kV2Mount);
  // The group is named, but its directory is missing.
  EXPECT_EQ(Find(), "- -");
  MakeDirectory("/sys/fs/cgroup/a");
  EXPECT_EQ(Find(), "- -");
  MakeDirectory("/sys/fs/cgroup/a/b/c");
  EXPECT_EQ(Find(), "- /sys/fs/cgroup/a/b");
  tree_.Write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(Find(), "- /sys/fs/cgroup");
  tree_.Write("/proc/self/cgroup", "0::/a (deleted)\n");
  EXPECT_EQ(Find(), "- -");
  tree_.Write("/proc/self/cgroup", "0::/../a\n");
  EXPECT_EQ(Find(), "- -");
}

TEST_F(CgroupDirectoriesTest, BothVersions) {
  tree_.Write("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/docker/ab\n1:cpu:/x\n0::/u\n");
  tree_.Write("/proc/self/mountinfo",
              "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
              "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
              "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n"
              "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  MakeDirectory("/sys/fs/cgroup/memory/docker/ab");
  EXPECT_EQ(Find(), "/sys/fs/cgroup/memory/docker/ab -");
  MakeDirectory("/sys/fs/cgroup/unified/u");
  EXPECT_EQ(Find(), "/sys/fs/cgroup/memory/docker/ab /sys/fs/cgroup/unified/u");
}

}  // namespace

}  // namespace tcmalloc
