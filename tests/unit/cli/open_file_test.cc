// SPDX-License-Identifier: BSD-3-Clause
// Tests names under which another user may put anything: only a regular file is opened.
#include "image/open_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "testing/fake_tree.h"

namespace cli {
namespace {

class OpenFileTest : public testing::Test {
 protected:
  OpenFileTest() {
    std::filesystem::create_directories(folder_ + "/root/sub");
    tree_.Write("/outside", "outside");
    tree_.Write("/root/inside", "inside");
    root_ = OpenDirectory(folder_ + "/root");
  }
  ~OpenFileTest() override { close(root_); }

  void Link(const std::string& to, const std::string& name) const {
    std::filesystem::create_symlink(to, folder_ + "/root/" + name);
  }
  // The contents, or the problem in angle brackets.
  std::string Open(const std::string& path, Resolve resolve = Resolve::kBelow) const {
    const OpenedFile file = OpenRegularFile(root_, path, resolve);
    if (file.descriptor < 0) return "<" + file.problem + ">";
    char text[100] = {};
    EXPECT_GT(read(file.descriptor, text, sizeof(text) - 1), 0);
    EXPECT_NE(fcntl(file.descriptor, F_GETFD) & FD_CLOEXEC, 0);
    close(file.descriptor);
    return text;
  }

  const tcmalloc::FakeTree tree_;
  const std::string folder_ = tree_.root();
  int root_ = -1;
};

TEST_F(OpenFileTest, RegularFiles) {
  EXPECT_EQ(Open("inside"), "inside");
  EXPECT_EQ(Open("inside", Resolve::kAnywhere), "inside");
  EXPECT_EQ(Open("missing"), "<>");
  EXPECT_EQ(Open("inside/missing"), "<>");
}

TEST_F(OpenFileTest, NothingElse) {
  ASSERT_EQ(mkfifo((folder_ + "/root/pipe").c_str(), 0600), 0);
  Link("/dev/tty", "terminal");
  for (const char* const name : {"pipe", "sub", "."}) {
    EXPECT_EQ(Open(name), "<is not a regular file>") << name;
  }
  EXPECT_EQ(Open("terminal", Resolve::kAnywhere), "<is not a regular file>");
  EXPECT_EQ(OpenRegularFile(AT_FDCWD, "/dev/null", Resolve::kAnywhere).problem,
            "is not a regular file");
}

TEST_F(OpenFileTest, NamesStayBelowTheRoot) {
  constexpr long kOpenat2 = 437;
  if (syscall(kOpenat2, -1, "", nullptr, 0) < 0 && errno == ENOSYS) {
    GTEST_SKIP() << "this kernel has no openat2";
  }
  Link("../outside", "up");
  Link("/inside", "absolute");
  EXPECT_EQ(Open("up"), "<>");
  EXPECT_EQ(Open("up", Resolve::kAnywhere), "outside");
  EXPECT_EQ(Open("../outside"), "<>");
  EXPECT_EQ(Open("sub/../../../inside"), "inside");
  EXPECT_EQ(Open("absolute"), "inside");
}

TEST_F(OpenFileTest, LinksOfTheKernelAreNotNames) {
  const int outside = open((folder_ + "/outside").c_str(), O_RDONLY | O_CLOEXEC);
  const std::string magic = "/proc/self/fd/" + std::to_string(outside);
  const OpenedFile by_name = OpenRegularFile(AT_FDCWD, magic, Resolve::kAnywhere);
  EXPECT_LT(by_name.descriptor, 0);
  EXPECT_NE(by_name.problem, "");
  const OpenedFile by_link = OpenRegularFile(AT_FDCWD, magic, Resolve::kLinksOfKernel);
  EXPECT_GE(by_link.descriptor, 0);
  close(by_link.descriptor);
  close(outside);
  EXPECT_EQ(OpenRegularFile(AT_FDCWD, "/proc/self/cwd", Resolve::kLinksOfKernel).problem,
            "is not a regular file");
}

}  // namespace
}  // namespace cli
