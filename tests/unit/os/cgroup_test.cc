// SPDX-License-Identifier: BSD-3-Clause
#include "os/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "testing/fake_tree.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

std::string PathOf(std::string_view line) {
  CgroupMembership membership;
  return ParseCgroupMembership(line, &membership) ? std::string(membership.path) : "none";
}

TEST(CgroupMembershipTest, ReadsBothVersions) {
  CgroupMembership membership;
  ASSERT_TRUE(ParseCgroupMembership("0::/user.slice/session-1.scope", &membership));
  EXPECT_EQ(membership.version, CgroupVersion::kV2);
  EXPECT_EQ(membership.path, "/user.slice/session-1.scope");
  ASSERT_TRUE(ParseCgroupMembership("4:memory:/docker/0638", &membership));
  EXPECT_EQ(membership.version, CgroupVersion::kV1);
  EXPECT_EQ(membership.path, "/docker/0638");
  EXPECT_EQ(PathOf("11:cpu,memory,pids:/a"), "/a");
  EXPECT_EQ(PathOf("0::/"), "/");
  // The name contains a colon.
  EXPECT_EQ(PathOf("0::/a:b/c"), "/a:b/c");
  EXPECT_EQ(PathOf("0::/../other"), "/../other");
}

TEST(CgroupMembershipTest, RejectsOtherLines) {
  for (const char* const line :
       {"", ":", "::", "0:", "0::", "0::a", "x::/a", "::/a", "1:cpu:/a", "2:name=systemd:/a",
        "3:memory2:/a", "3:xmemory:/a", "4:memory:", "4:memory", "1::/a", "-1:memory:/a"}) {
    EXPECT_EQ(PathOf(line), "none") << line;
  }
}

TEST(CgroupMountTest, ReadsBothVersions) {
  CgroupMount mount;
  ASSERT_TRUE(ParseCgroupMount(
      "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:7 - cgroup2 cgroup2 rw,nsdelegate",
      &mount));
  EXPECT_EQ(mount.version, CgroupVersion::kV2);
  EXPECT_EQ(mount.root, "/");
  EXPECT_EQ(mount.point, "/sys/fs/cgroup");
  ASSERT_TRUE(ParseCgroupMount(
      "35 31 0:32 /docker/ab /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory", &mount));
  EXPECT_EQ(mount.version, CgroupVersion::kV1);
  EXPECT_EQ(mount.root, "/docker/ab");
  EXPECT_EQ(mount.point, "/sys/fs/cgroup/memory");
  ASSERT_TRUE(ParseCgroupMount("35 31 0:32 / /m rw - cgroup cgroup rw,cpu,memory,pids", &mount));
}

TEST(CgroupMountTest, RejectsOtherLines) {
  CgroupMount mount;
  for (const char* const line :
       {"", " ", "30 23 0:26", "30 23 0:26 / ", "30 23 0:26 / /m rw", "30 23 0:26 / /m rw -",
        "30 23 0:26 / /m rw - ", "30 23 0:26 / /m rw - tmpfs cgroup2 rw",
        "30 23 0:26 / /m rw - cgroup cgroup rw,cpu", "30 23 0:26 / /m rw - cgroup cgroup memory2",
        "30 23 0:26 x /m rw - cgroup2 cgroup2 rw", "30 23 0:26 / m rw - cgroup2 cgroup2 rw",
        "30 23 0:26 / /m cgroup2 cgroup2 cgroup2 rw", "30 23 0:26 / /m rw cgroup2 - ext4 a rw"}) {
    EXPECT_FALSE(ParseCgroupMount(line, &mount)) << line;
  }
}

std::string DirectoryOf(std::string_view root, std::string_view point, std::string_view path) {
  char buffer[256];
  TextWriter out(buffer, sizeof(buffer));
  const CgroupMount mount{.version = CgroupVersion::kV2, .root = root, .point = point};
  return WriteCgroupDirectory(mount, path, &out) ? std::string(out.text()) : "none";
}

TEST(CgroupDirectoryTest, IsBelowTheMount) {
  EXPECT_EQ(DirectoryOf("/", "/sys/fs/cgroup", "/a/b"), "/sys/fs/cgroup/a/b");
  EXPECT_EQ(DirectoryOf("/", "/sys/fs/cgroup", "/"), "/sys/fs/cgroup");
}

// In a container without a cgroup namespace, the path is that of the host, and the mount shows a
// part of the hierarchy.
TEST(CgroupDirectoryTest, OfAMountedPart) {
  EXPECT_EQ(DirectoryOf("/docker/ab", "/m", "/docker/ab"), "/m");
  EXPECT_EQ(DirectoryOf("/docker/ab", "/m", "/docker/ab/c/d"), "/m/c/d");
  EXPECT_EQ(DirectoryOf("/docker/ab", "/m", "/docker/abc"), "none");
  EXPECT_EQ(DirectoryOf("/docker/ab", "/m", "/docker"), "none");
  EXPECT_EQ(DirectoryOf("/docker/ab", "/m", "/other"), "none");
  // The mount is from outside the process's namespace.
  EXPECT_EQ(DirectoryOf("/../..", "/m", "/../../x"), "/m/x");
}

// In the reverse case, the process's path is the root, and the mount shows a part.
TEST(CgroupDirectoryTest, OfAProcessAtTheRootOfItsNamespace) {
  EXPECT_EQ(DirectoryOf("/docker/ab", "/m", "/"), "/m");
  EXPECT_EQ(DirectoryOf("/..", "/m", "/"), "/m");
}

TEST(CgroupDirectoryTest, NeverLeavesTheMount) {
  EXPECT_EQ(DirectoryOf("/", "/m", "/../x"), "none");
  EXPECT_EQ(DirectoryOf("/", "/m", "/a/../../x"), "none");
  EXPECT_EQ(DirectoryOf("/", "/m", "/.."), "none");
  EXPECT_EQ(DirectoryOf("/a", "/m", "/a/.."), "none");
  EXPECT_EQ(DirectoryOf("/", "/m", "/..a/b.."), "/m/..a/b..");
}

TEST(CgroupDirectoryTest, NamesWithSpaces) {
  EXPECT_EQ(DirectoryOf("/", "/my\\040group\\134", "/a b"), "/my group\\/a b");
  EXPECT_EQ(DirectoryOf("/a\\040b", "/m", "/a b/c"), "/m/c");
  EXPECT_EQ(DirectoryOf("/a\\040b", "/m", "/a\\040b/c"), "none");
  // These are no valid escapes: they are too large, too short, or have no digits.
  EXPECT_EQ(DirectoryOf("/", "/m\\777\\04\\x40\\", "/"), "/m\\777\\04\\x40\\");
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
  Write("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  Write("/sys/fs/cgroup/a/b/c/memory.high", "max\n");
  EXPECT_EQ(Read(), kNoCgroupLimit);
  Write("/sys/fs/cgroup/a/b/c/memory.max", "5000000\n");
  EXPECT_EQ(Read(), 5000000u);
  Write("/sys/fs/cgroup/a/b/c/memory.high", "4000000\n");
  EXPECT_EQ(Read(), 4000000u);
  Write("/sys/fs/cgroup/a/memory.max", "3000000\n");
  EXPECT_EQ(Read(), 3000000u);
  Write("/sys/fs/cgroup/a/b/memory.high", "2000000\n");
  EXPECT_EQ(Read(), 2000000u);
  Write("/sys/fs/cgroup/memory.max", "1000000\n");
  EXPECT_EQ(Read(), 1000000u);
  // Limits of siblings and of groups above the mount have no effect.
  Write("/sys/fs/cgroup/a/b/x/memory.max", "1\n");
  Write("/sys/fs/cgroup/x/memory.max", "1\n");
  Write("/sys/fs/memory.max", "1\n");
  Write("/memory.max", "1\n");
  EXPECT_EQ(Read(), 1000000u);
}

// The next reading returns a changed limit.
TEST_F(CgroupReadTest, ReadsAgain) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/proc/self/mountinfo", kV2Mount);
  for (const uint64_t limit : {1000000, 2000000, 500000}) {
    Write("/sys/fs/cgroup/memory.max", std::to_string(limit) + "\n");
    EXPECT_EQ(Read(), limit);
  }
}

TEST_F(CgroupReadTest, VersionOne) {
  Write("/proc/self/cgroup",
        "9:name=systemd:/x\n4:cpu,memory:/docker/ab\n3:cpuset:/x\n1:cpu:/x\n0::/x\n");
  Write("/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Read(), kNoCgroupLimit);
  Write("/sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes", "700000000\n");
  EXPECT_EQ(Read(), 700000000u);
  Write("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "600000000\n");
  EXPECT_EQ(Read(), 600000000u);
  // This is the other hierarchy of a mixed system.
  Write("/sys/fs/cgroup/unified/x/memory.max", "5000\n");
  EXPECT_EQ(Read(), 5000u);
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

// The hierarchy is mounted twice: both mounts show the same groups, and one of them shows more
// ancestors.
TEST_F(CgroupReadTest, SeveralMounts) {
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/proc/self/mountinfo",
        "30 23 0:26 /a/b /inner rw - cgroup2 cgroup2 rw\n"
        "31 23 0:26 / /my\\040outer rw - cgroup2 cgroup2 rw\n");
  Write("/inner/memory.max", "9000\n");
  EXPECT_EQ(Read(), 9000u);
  Write("/my outer/a/memory.max", "7000\n");
  EXPECT_EQ(Read(), 7000u);
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

TEST_F(CgroupReadTest, LongLinesAndPaths) {
  Write("/sys/fs/cgroup/memory.max", "1000\n");
  // Mounts of containers have long lists of layers. The last line may lack its newline.
  Write("/proc/self/mountinfo", "20 1 0:20 / / rw - overlay overlay lowerdir=" +
                                    std::string(30000, 'l') + "\n" + kV2Mount + "31 1 0:1 / /x");
  Write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(Read(), 1000u);
  Write("/proc/self/cgroup", "0::/\n5:memory:/" + std::string(20000, 'p'));
  EXPECT_EQ(Read(), 1000u);
  // A path that is too long is not truncated to another path.
  Write("/proc/self/cgroup", "0::/" + std::string(5000, 'p') + "\n");
  EXPECT_EQ(Read(), kNoCgroupLimit);
  const std::string part(200, 'q');
  std::string path;
  for (int i = 0; i < 15; ++i) path += "/" + part;
  Write("/proc/self/cgroup", "0::" + path + "\n");
  Write("/sys/fs/cgroup" + path + "/memory.max", "900\n");
  EXPECT_EQ(Read(), 900u);
}

TEST_F(CgroupReadTest, KeepsErrnoAndFileDescriptors) {
  Write("/proc/self/cgroup", "0::/a\n");
  Write("/proc/self/mountinfo", kV2Mount);
  Write("/sys/fs/cgroup/a/memory.max", "1000\n");
  const int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(before);
  errno = 77;
  EXPECT_EQ(Read(), 1000u);
  EXPECT_EQ(errno, 77);
  const int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(after);
  EXPECT_EQ(before, after);
}

// A process without free file descriptors gets no answer instead of "no limit".
TEST_F(CgroupReadTest, FailsWithoutFileDescriptors) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/proc/self/mountinfo", kV2Mount);
  Write("/sys/fs/cgroup/memory.max", "1000\n");
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  // Reading the limits needs two open files at the same time, reading the lists needs one.
  for (const rlim_t free_descriptors : {0, 1}) {
    const rlimit limit{static_cast<rlim_t>(next) + 1 + free_descriptors, old_limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const std::optional<uint64_t> read = Read();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
    EXPECT_FALSE(read.has_value());
  }
  close(next);
  EXPECT_EQ(Read(), 1000u);
}

// On any machine two readings have a result, and the same one.
TEST(CgroupTest, OfThisProcess) {
  const std::optional<uint64_t> limit = ReadCgroupMemoryLimit();
  ASSERT_TRUE(limit.has_value());
  EXPECT_GT(*limit, uint64_t{1} << 20);
  EXPECT_EQ(ReadCgroupMemoryLimit(), limit);
}

// The parsers handle any text without reading beyond its end. The sanitizer build checks this.
TEST(CgroupParsersTest, SurviveRandomText) {
  SeededRandom random(1910);
  static constexpr char kAlphabet[] = "0123456789: /.\\-cgroup2memory,\n\xff";
  for (int i = 0; i < 50'000; ++i) {
    std::vector<char> text(random.Below(60));
    for (char& c : text) c = kAlphabet[random.Below(sizeof(kAlphabet) - 1)];
    const std::string_view line(text.data(), text.size());
    CgroupMembership membership;
    CgroupMount mount;
    uint64_t limit;
    if (ParseCgroupMembership(line, &membership)) {
      ASSERT_EQ(membership.path[0], '/');
    }
    if (ParseCgroupMount(line, &mount)) {
      ASSERT_EQ(mount.point[0], '/');
    }
    ParseCgroupLimit(line, &limit);
    const std::string_view root = line.substr(0, line.size() / 2);
    DirectoryOf(root, line, line.substr(line.size() / 2));
  }
}

}  // namespace
}  // namespace tcmalloc
