// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/process.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "testing/fake_tree.h"

namespace tcmalloc {
namespace {

class OutputPathTest : public testing::Test {
 protected:
  std::string Path(const char* name) const { return folder_ + "/" + name; }

  const FakeTree tree_;
  const std::string folder_ = tree_.root();
};

TEST_F(OutputPathTest, NothingIsCreatedOrChanged) {
  EXPECT_EQ(ErrorOfCreating(Path("new").c_str()), 0);
  EXPECT_EQ(ErrorOfCreatingIn(folder_.c_str()), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  tree_.Write("/old", "text");
  EXPECT_EQ(ErrorOfCreating(Path("old").c_str()), 0);
  EXPECT_EQ(tree_.Read("/old"), "text");
  EXPECT_EQ(ErrorOfCreating("relative_name_that_nobody_has"), 0);
  // The target of a link is not examined.
  std::filesystem::create_symlink("/nowhere/file", Path("link"));
  EXPECT_EQ(ErrorOfCreating(Path("link").c_str()), 0);
}

TEST_F(OutputPathTest, Errors) {
  errno = EDOM;
  EXPECT_EQ(ErrorOfCreating(Path("missing/file").c_str()), ENOENT);
  EXPECT_EQ(ErrorOfCreatingIn(Path("missing").c_str()), ENOENT);
  tree_.Write("/file", "text");
  EXPECT_EQ(ErrorOfCreating(Path("file/below").c_str()), ENOTDIR);
  EXPECT_NE(ErrorOfCreatingIn(Path("file").c_str()), 0);
  EXPECT_EQ(ErrorOfCreating((folder_ + "/" + std::string(300, 'x')).c_str()), ENAMETOOLONG);
  EXPECT_EQ(errno, EDOM);
  ASSERT_EQ(chmod(folder_.c_str(), 0500), 0);
  // Root may write nevertheless.
  EXPECT_EQ(ErrorOfCreating(Path("new").c_str()), geteuid() == 0 ? 0 : EACCES);
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
}

}  // namespace
}  // namespace tcmalloc
