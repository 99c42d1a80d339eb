// SPDX-License-Identifier: BSD-3-Clause
#include "os/cgroup.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "testing/fake_tree.h"
#include "testing/in_child.h"

namespace tcmalloc {
namespace {

// Version and path, or "none".
std::string MembershipOf(std::string_view line) {
  CgroupMembership membership;
  if (!ParseCgroupMembership(line, &membership)) return "none";
  return (membership.version == CgroupVersion::kV2 ? "2 " : "1 ") + std::string(membership.path);
}

TEST(CgroupMembershipTest, ReadsBothVersionsAndNothingElse) {
  EXPECT_EQ(MembershipOf("0::/user.slice/session-1.scope"), "2 /user.slice/session-1.scope");
  EXPECT_EQ(MembershipOf("4:memory:/docker/0638"), "1 /docker/0638");
  EXPECT_EQ(MembershipOf("11:cpu,memory,pids:/a"), "1 /a");
  EXPECT_EQ(MembershipOf("0::/"), "2 /");
  // The name contains a colon.
  EXPECT_EQ(MembershipOf("0::/a:b/c"), "2 /a:b/c");
  EXPECT_EQ(MembershipOf("0::/../other"), "2 /../other");
  for (const char* const line :
       {"", ":", "::", "0:", "0::", "0::a", "x::/a", "::/a", "1:cpu:/a", "2:name=systemd:/a",
        "3:memory2:/a", "3:xmemory:/a", "4:memory:", "4:memory", "1::/a", "-1:memory:/a"}) {
    EXPECT_EQ(MembershipOf(line), "none") << line;
  }
}

// Version, root and mount point, or "none".
std::string MountOf(std::string_view line) {
  CgroupMount mount;
  if (!ParseCgroupMount(line, &mount)) return "none";
  return (mount.version == CgroupVersion::kV2 ? "2 " : "1 ") + std::string(mount.root) + " " +
         std::string(mount.point);
}

TEST(CgroupMountTest, ReadsBothVersionsAndNothingElse) {
  EXPECT_EQ(MountOf("30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:7 - cgroup2 cgroup2 rw"),
            "2 / /sys/fs/cgroup");
  EXPECT_EQ(MountOf("35 31 0:32 /docker/ab /sys/memory rw - cgroup cgroup rw,memory"),
            "1 /docker/ab /sys/memory");
  EXPECT_EQ(MountOf("35 31 0:32 / /m rw - cgroup cgroup rw,cpu,memory,pids"), "1 / /m");
  for (const char* const line :
       {"", " ", "30 23 0:26", "30 23 0:26 / ", "30 23 0:26 / /m rw", "30 23 0:26 / /m rw -",
        "30 23 0:26 / /m rw - ", "30 23 0:26 / /m rw - tmpfs cgroup2 rw",
        "30 23 0:26 / /m rw - cgroup cgroup rw,cpu", "30 23 0:26 / /m rw - cgroup cgroup memory2",
        "30 23 0:26 x /m rw - cgroup2 cgroup2 rw", "30 23 0:26 / m rw - cgroup2 cgroup2 rw",
        "30 23 0:26 / /m cgroup2 cgroup2 cgroup2 rw", "30 23 0:26 / /m rw cgroup2 - ext4 a rw"}) {
    EXPECT_EQ(MountOf(line), "none") << line;
  }
}

TEST(CgroupDirectoryTest, IsBelowTheMountAndNowhereElse) {
  const struct {
    const char* root;
    const char* point;
    const char* path;
    const char* directory;
  } kRows[] = {
      {"/", "/sys/fs/cgroup", "/a/b", "/sys/fs/cgroup/a/b"},
      {"/", "/sys/fs/cgroup", "/", "/sys/fs/cgroup"},
      // In a container without a cgroup namespace, the path is that of the host, and the mount
      // shows a part of the hierarchy.
      {"/docker/ab", "/m", "/docker/ab", "/m"},
      {"/docker/ab", "/m", "/docker/ab/c/d", "/m/c/d"},
      {"/docker/ab", "/m", "/docker/abc", "none"},
      {"/docker/ab", "/m", "/docker", "none"},
      {"/docker/ab", "/m", "/other", "none"},
      // The mount is from outside the process's namespace.
      {"/../..", "/m", "/../../x", "/m/x"},
      // In the reverse case, the process's path is the root, and the mount shows a part.
      {"/docker/ab", "/m", "/", "/m"},
      {"/..", "/m", "/", "/m"},
      {"/", "/m", "/../x", "none"},
      {"/", "/m", "/a/../../x", "none"},
      {"/", "/m", "/..", "none"},
      {"/a", "/m", "/a/..", "none"},
      {"/", "/m", "/..a/b..", "/m/..a/b.."},
      {"/", "/my\\040group\\134", "/a b", "/my group\\/a b"},
      {"/a\\040b", "/m", "/a b/c", "/m/c"},
      {"/a\\040b", "/m", "/a\\040b/c", "none"},
      // These are no valid escapes: they are too large, too short, or have no digits.
      {"/", "/m\\777\\04\\x40\\", "/", "/m\\777\\04\\x40\\"},
  };
  for (const auto& row : kRows) {
    char buffer[256];
    TextWriter out(buffer, sizeof(buffer));
    const CgroupMount mount{.version = CgroupVersion::kV2, .root = row.root, .point = row.point};
    EXPECT_EQ(WriteCgroupDirectory(mount, row.path, &out) ? std::string(out.text()) : "none",
              row.directory)
        << row.root << " " << row.path;
  }
}

std::optional<uint64_t> Limit(std::string_view text) {
  uint64_t limit = 1;
  return ParseCgroupLimit(text, &limit) ? std::optional(limit) : std::nullopt;
}

TEST(CgroupLimitTest, Values) {
  EXPECT_EQ(Limit("max\n"), kNoCgroupLimit);
  EXPECT_EQ(Limit("max"), kNoCgroupLimit);
  EXPECT_EQ(Limit("0\n"), 0u);
  EXPECT_EQ(Limit("536870912\n"), 536870912u);
  EXPECT_EQ(Limit("1152921504606846975\n"), (uint64_t{1} << 60) - 1);
  EXPECT_EQ(Limit("1152921504606846976\n"), kNoCgroupLimit);
  // These are the largest values of version 1, which depend on the page size.
  EXPECT_EQ(Limit("9223372036854771712\n"), kNoCgroupLimit);
  EXPECT_EQ(Limit("9223372036854710272\n"), kNoCgroupLimit);
  EXPECT_EQ(Limit("18446744073709551615\n"), kNoCgroupLimit);
  EXPECT_EQ(Limit("99999999999999999999999999999999"), kNoCgroupLimit);
  for (const char* const bad : {"", "\n", "-1\n", "12k\n", "0x10", " 1", "1 ", "maximum", "ma",
                                "1\n\n", "max\n\n", "1.5"}) {
    EXPECT_FALSE(Limit(bad).has_value()) << bad;
  }
}

TEST(CgroupLimitTest, IsKnownWithoutTheFirstThread) {
  const auto limit = ReadCgroupMemoryLimit();
  EXPECT_EQ(InChildWithoutFirstThread([&] { return ReadCgroupMemoryLimit() == limit ? 0 : 1; }), 0);
}

// Reads from a file tree that the test writes.
class CgroupReadTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) { tree_.Write(path, text); }
  std::optional<uint64_t> Read() { return ReadCgroupMemoryLimit(tree_.root()); }

  static constexpr char kV2Mount[] =
      "22 1 0:20 / /proc rw - proc proc rw\n"
      "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

  const FakeTree tree_;
};

TEST_F(CgroupReadTest, FindsTheSmallestLimitOfAllAncestors) {
  Write("/proc/self/cgroup", "0::/a/b/c\n");
  Write("/proc/self/mountinfo", kV2Mount);
  EXPECT_EQ(Read(), kNoCgroupLimit);
  Write("/proc/7/cgroup", "0::/d\n");
  Write("/sys/fs/cgroup/d/memory.max", "7000000\n");
  EXPECT_EQ(ReadCgroupMemoryLimit(tree_.root(), "7"), 7000000u);
  for (const char* const file : {"max", "high"}) {
    Write(std::string("/sys/fs/cgroup/a/b/c/memory.") + file, "max\n");
    EXPECT_EQ(Read(), kNoCgroupLimit);
  }
  uint64_t limit = 6'000'000;
  for (const char* const file :
       {"a/b/c/memory.max", "a/b/c/memory.high", "a/memory.max", "a/b/memory.high", "memory.max"}) {
    Write(std::string("/sys/fs/cgroup/") + file, std::to_string(--limit) + "\n");
    EXPECT_EQ(Read(), limit) << file;
  }
  // Limits of siblings and of groups above the mount have no effect.
  for (const char* const file : {"/sys/fs/cgroup/a/b/x", "/sys/fs/cgroup/x", "/sys/fs", ""}) {
    Write(std::string(file) + "/memory.max", "1\n");
  }
  EXPECT_EQ(Read(), limit);
}

TEST_F(CgroupReadTest, InContainers) {
  Write("/proc/self/cgroup", "0::/docker/ab/sub\n");
  Write("/proc/self/mountinfo", "30 23 0:26 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  Write("/sys/fs/cgroup/memory.max", "9000\n");
  EXPECT_EQ(Read(), 9000u);
  Write("/sys/fs/cgroup/sub/memory.max", "8000\n");
  EXPECT_EQ(Read(), 8000u);
  Write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(Read(), 9000u);
  // The mount shows the group of another container.
  Write("/proc/self/cgroup", "0::/docker/xy\n");
  EXPECT_EQ(Read(), kNoCgroupLimit);
}

TEST_F(CgroupReadTest, FailsWithoutFiles) {
  EXPECT_FALSE(Read().has_value());
  Write("/proc/self/cgroup", "0::/\n");
  EXPECT_FALSE(Read().has_value());
  Write("/proc/self/mountinfo", "");
  EXPECT_EQ(Read(), kNoCgroupLimit);
  Write("/proc/self/cgroup", "");
  Write("/proc/self/mountinfo", kV2Mount);
  Write("/sys/fs/cgroup/memory.max", "1000\n");
  EXPECT_EQ(Read(), kNoCgroupLimit);
}

}  // namespace
}  // namespace tcmalloc
