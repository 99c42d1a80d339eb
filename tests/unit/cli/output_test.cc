// SPDX-License-Identifier: BSD-3-Clause
// Tests how a command writes its output, depending on what has the name of the output.
#include "image/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "image/image.h"

namespace cli {
namespace {

class OutputTest : public testing::Test {
 protected:
  OutputTest() { std::filesystem::create_directory(folder_); }
  ~OutputTest() override { std::filesystem::remove_all(folder_); }

  static void Put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static struct stat StatusOf(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
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

  const std::string folder_ = testing::TempDir() + "output_" + std::to_string(getpid());
  const std::string path_ = folder_ + "/file";
};

TEST_F(OutputTest, ANewFileHasTheRightsOfTheUmask) {
  const mode_t before = umask(027);
  WriteOutput(path_, "text");
  umask(before);
  EXPECT_EQ(TextOf(path_), "text");
  EXPECT_EQ(StatusOf(path_).st_mode & 0777, 0640u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputTest, AnOldFileIsReplacedAndKeepsItsRights) {
  Put(path_, "old");
  chmod(path_.c_str(), 0604);
  const ino_t old = StatusOf(path_).st_ino;
  {
    Output output(path_);
    output.Write("ne");
    EXPECT_EQ(TextOf(path_), "old");
    output.Write("w");
    output.Finish();
  }
  EXPECT_EQ(TextOf(path_), "new");
  EXPECT_EQ(StatusOf(path_).st_mode & 0777, 0604u);
  EXPECT_NE(StatusOf(path_).st_ino, old);
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputTest, AFileForItsOwnerOnlyIsNoOneElses) {
  Put(path_, "old");
  chmod(path_.c_str(), 0666);
  Output output(path_, Readers::kOwnerOnly);
  output.Finish();
  EXPECT_EQ(StatusOf(path_).st_mode & 0777, 0600u);
  EXPECT_EQ(StatusOf(path_).st_uid, geteuid());
}

TEST_F(OutputTest, WithoutFinishNothingHappens) {
  Put(path_, "old");
  {
    Output output(path_);
    output.Write("new");
  }
  EXPECT_EQ(TextOf(path_), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputTest, ASymbolicLinkStays) {
  Put(folder_ + "/target", "old");
  std::filesystem::create_symlink("target", path_);
  WriteOutput(path_, "new");
  EXPECT_TRUE(S_ISLNK(StatusOf(path_).st_mode));
  EXPECT_EQ(TextOf(folder_ + "/target"), "new");
}

TEST_F(OutputTest, ADeviceStays) {
  // The test makes its own device: a wrong writer, run by root, would replace the device of the
  // machine.
  if (mknod(path_.c_str(), S_IFCHR | 0600, StatusOf("/dev/full").st_rdev) != 0 ||
      access(path_.c_str(), W_OK) != 0) {
    GTEST_SKIP() << "this needs root and a folder for devices";
  }
  EXPECT_EQ(MessageOf(path_, "text"), "cannot write " + path_ + ": No space left on device");
  EXPECT_TRUE(S_ISCHR(StatusOf(path_).st_mode));
}

TEST_F(OutputTest, APipeIsWrittenTo) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = TextOf(path_); });
  WriteOutput(path_, "text");
  reader.join();
  EXPECT_EQ(read, "text");
  EXPECT_TRUE(S_ISFIFO(StatusOf(path_).st_mode));
}

TEST_F(OutputTest, AppendsToWhatIsThere) {
  AppendOutput(path_, "a");
  AppendOutput(path_, "b");
  EXPECT_EQ(TextOf(path_), "ab");
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
