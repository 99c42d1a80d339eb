// SPDX-License-Identifier: BSD-3-Clause
// Which existing names are appended to, in a directory of several users and in the user's own.
#include "os/appended_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace tcmalloc {
namespace {

class AppendedFileTest : public testing::Test {
 protected:
  AppendedFileTest() {
    char name[] = "/tmp/appended_file_test.XXXXXX";
    folder_ = mkdtemp(name);
    std::ofstream(Path("precious")) << "precious";
  }
  ~AppendedFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void LetOthersWrite(mode_t others) { ASSERT_EQ(chmod(folder_.c_str(), 0700 | others), 0); }
  // Appends an x. Returns 0 or the error.
  int Append(const std::string& name) {
    const int file = OpenForAppending(Path(name).c_str());
    if (file < 0) return errno;
    EXPECT_EQ(write(file, "x", 1), 1);
    close(file);
    return 0;
  }
  std::string Contents(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }

  std::string folder_;
};

constexpr mode_t kSharedModes[] = {S_ISVTX | 0077, 0077, 0020, 0002};

TEST_F(AppendedFileTest, AppendsToItsOwnFileInAnyDirectory) {
  for (const mode_t mode : {mode_t{0}, mode_t{0055}, kSharedModes[0], kSharedModes[2]}) {
    LetOthersWrite(mode);
    EXPECT_EQ(Append("new"), 0);
    EXPECT_EQ(Append("new"), 0);
    EXPECT_EQ(Contents("new"), "xx");
    std::filesystem::remove(Path("new"));
  }
}

TEST_F(AppendedFileTest, FollowsLinksOfTheUsersOwnDirectory) {
  std::filesystem::create_symlink("precious", Path("link"));
  EXPECT_EQ(Append("link"), 0);
  EXPECT_EQ(Contents("precious"), "preciousx");
  // A device that root's directory names.
  const int device = OpenForAppending("/dev/null");
  EXPECT_GE(device, 0);
  close(device);
}

TEST_F(AppendedFileTest, RefusesPlantedNames) {
  for (const mode_t mode : kSharedModes) {
    LetOthersWrite(mode);
    std::filesystem::create_symlink("precious", Path("link"));
    EXPECT_EQ(Append("link"), EPERM);
    std::filesystem::create_hard_link(Path("precious"), Path("name"));
    EXPECT_EQ(Append("name"), EPERM);
    // To a file that there is not: it is not created.
    std::filesystem::create_symlink("missing", Path("dangling"));
    EXPECT_EQ(Append("dangling"), EPERM);
    EXPECT_FALSE(std::filesystem::exists(Path("missing")));
    for (const char* name : {"link", "name", "dangling"}) std::filesystem::remove(Path(name));
  }
  EXPECT_EQ(Contents("precious"), "precious");
}

TEST_F(AppendedFileTest, RefusesFilesOfOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  LetOthersWrite(kSharedModes[0]);
  std::ofstream(Path("theirs")) << "theirs";
  ASSERT_EQ(chown(Path("theirs").c_str(), 65534, 65534), 0);
  EXPECT_EQ(Append("theirs"), EPERM);
  EXPECT_EQ(Contents("theirs"), "theirs");
  // A FIFO without a reader would block.
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0666), 0);
  ASSERT_EQ(chown(Path("fifo").c_str(), 65534, 65534), 0);
  EXPECT_EQ(Append("fifo"), EPERM);
  // The directory itself is another user's.
  LetOthersWrite(0);
  std::filesystem::create_symlink("precious", Path("link"));
  ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(Append("link"), EPERM);
}

TEST_F(AppendedFileTest, Errors) {
  EXPECT_EQ(Append("missing/file"), ENOENT);
  EXPECT_EQ(Append(std::string(300, 'x')), ENAMETOOLONG);
  EXPECT_EQ(Append(std::string(5000, 'x') + "/x"), ENAMETOOLONG);
  EXPECT_EQ(Append(""), ENOENT);
}

}  // namespace
}  // namespace tcmalloc
