// SPDX-License-Identifier: BSD-3-Clause
// Tests how a command writes its output, depending on what has the name of the output. Links,
// devices and pipes: tests/command/distrust_test.py.
#include "image/output.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "image/image.h"
#include "testing/fake_tree.h"

namespace cli {
namespace {

class OutputTest : public testing::Test {
 protected:
  void PutOldFile() { tree_.Write("/file", "old"); }
  std::string Text() const { return tree_.Read("/file"); }
  struct stat Status() const {
    struct stat status = {};
    EXPECT_EQ(lstat(path_.c_str(), &status), 0);
    return status;
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_),
                                             std::filesystem::directory_iterator()));
  }
  static std::string MessageOf(const std::string& path, const std::string& text) {
    try {
      WriteOutput(path, text);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "no failure";
  }

  const tcmalloc::FakeTree tree_;
  const std::string folder_ = tree_.root();
  const std::string path_ = folder_ + "/file";
};

TEST_F(OutputTest, ANewFileHasTheRightsOfTheUmask) {
  const mode_t before = umask(027);
  WriteOutput(path_, "text");
  umask(before);
  EXPECT_EQ(Text(), "text");
  EXPECT_EQ(Status().st_mode & 0777, 0640u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputTest, AnOldFileIsReplacedAndKeepsItsRights) {
  PutOldFile();
  chmod(path_.c_str(), 0604);
  const ino_t old = Status().st_ino;
  {
    Output output(path_);
    output.Write("ne");
    EXPECT_EQ(Text(), "old");
    output.Write("w");
    output.Finish();
  }
  EXPECT_EQ(Text(), "new");
  EXPECT_EQ(Status().st_mode & 0777, 0604u);
  EXPECT_NE(Status().st_ino, old);
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputTest, AFileForItsOwnerOnlyIsNoOneElses) {
  PutOldFile();
  chmod(path_.c_str(), 0666);
  Output output(path_, Readers::kOwnerOnly);
  output.Finish();
  EXPECT_EQ(Status().st_mode & 0777, 0600u);
  EXPECT_EQ(Status().st_uid, geteuid());
}

TEST_F(OutputTest, WithoutFinishNothingHappens) {
  PutOldFile();
  {
    Output output(path_);
    output.Write("new");
  }
  EXPECT_EQ(Text(), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputTest, AppendsToWhatIsThere) {
  AppendOutput(path_, "a");
  AppendOutput(path_, "b");
  EXPECT_EQ(Text(), "ab");
  EXPECT_THROW(AppendOutput("/dev/full", "a"), Failure);
  EXPECT_THROW(AppendOutput(folder_ + "/no/file", "a"), Failure);
}

TEST_F(OutputTest, SaysWhatIsWrong) {
  EXPECT_EQ(MessageOf(folder_ + "/no/file", ""),
            "cannot write " + folder_ + "/no/file: No such file or directory");
  EXPECT_EQ(MessageOf(folder_, ""), "cannot write " + folder_ + ": Is a directory");
}

// A write of a part is a failure: the file has a limit of a few bytes.
TEST_F(OutputTest, AShortWriteIsAFailure) {
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 10, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = MessageOf(path_, std::string(100, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "cannot write " + path_ + ": File too large");
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace cli
