// SPDX-License-Identifier: BSD-3-Clause
#include "os/files.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "testing/fake_tree.h"

namespace tcmalloc {
namespace {

// A pipe has less room than the text needs, and signals interrupt the writer repeatedly: writes are
// short, or fail with EINTR.
TEST(WriteAllToTest, WritesAllDespiteShortWritesAndSignals) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_GT(fcntl(pipe_ends[1], F_SETPIPE_SZ, 4096), 0);
  std::string text;
  for (size_t i = 0; i < 300'000; ++i) text += static_cast<char>('a' + i % 23);

  static int signals;
  signals = 0;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { ++signals; };  // without SA_RESTART
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  bool ok = false;
  std::thread writer([&] { ok = WriteAllTo(pipe_ends[1], text.data(), text.size()); });
  std::string read_back;
  while (read_back.size() < text.size()) {
    pthread_kill(writer.native_handle(), SIGUSR1);
    char buffer[1000];
    const ssize_t n = read(pipe_ends[0], buffer, sizeof(buffer));
    if (n <= 0) break;
    read_back.append(buffer, static_cast<size_t>(n));
  }
  close(pipe_ends[0]);
  writer.join();
  sigaction(SIGUSR1, &before, nullptr);
  close(pipe_ends[1]);
  EXPECT_TRUE(ok);
  EXPECT_GT(signals, 0);
  EXPECT_TRUE(read_back == text) << read_back.size() << " of " << text.size();
}

TEST(WriteAllToTest, ReportsFailure) {
  EXPECT_FALSE(WriteAllTo(-1, "a", 1));
  EXPECT_EQ(errno, EBADF);
  EXPECT_TRUE(WriteAllTo(-1, "a", 0));
  const int full = OpenForWriting("/dev/full");
  ASSERT_GE(full, 0);
  EXPECT_FALSE(WriteAllTo(full, "a", 1));
  EXPECT_EQ(errno, ENOSPC);
  Close(full);
}

TEST(FilePathTest, JoinsAndReportsACut) {
  const FilePath path("/a", "/b");
  EXPECT_STREQ(path.c_str(), "/a/b");
  EXPECT_EQ(path.text(), "/a/b");
  EXPECT_TRUE(path.is_whole());
  const std::string longest(kMaxPath - 3, 'x');
  EXPECT_TRUE(FilePath(longest, "/b").is_whole());
  EXPECT_FALSE(FilePath(longest, "/bc").is_whole());
  EXPECT_FALSE(FilePath("", longest + "/bc").is_whole());
}

template <size_t kMaxLine>
std::vector<std::string> LinesOf(const std::string& text) {
  const FakeTree tree;
  tree.Write("/file", text);
  std::vector<std::string> lines;
  const auto see = [](std::string_view line, void* context) {
    static_cast<std::vector<std::string>*>(context)->emplace_back(line);
  };
  LineReader<kMaxLine> reader;
  EXPECT_TRUE(reader.ForEachLine(tree.Path("/file").c_str(), see, &lines));
  EXPECT_FALSE(reader.ForEachLine(tree.Path("/none").c_str(), see, &lines));
  return lines;
}

TEST(LineReaderTest, ReadsLines) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(LinesOf<8>(""), Lines());
  EXPECT_EQ(LinesOf<8>("\n"), Lines({""}));
  EXPECT_EQ(LinesOf<8>("a\n\nbc\n"), Lines({"a", "", "bc"}));
  EXPECT_EQ(LinesOf<8>("a\nbc"), Lines({"a", "bc"}));
  // A line is read whole or not at all.
  EXPECT_EQ(LinesOf<8>("12345678\n123456789\na\n123456789"), Lines({"12345678", "a"}));
}

// Lines are read correctly wherever read buffers end.
TEST(LineReaderTest, ReadsLinesOfSeveralPieces) {
  std::string text;
  std::vector<std::string> lines;
  for (size_t i = 0; i < 300; ++i) {
    lines.emplace_back(i, static_cast<char>('a' + i % 26));
    text += lines.back() + "\n";
  }
  EXPECT_EQ(LinesOf<300>(text), lines);
}

// Which existing names are appended to, in a directory of several users and in the user's own.
class AppendedFileTest : public testing::Test {
 protected:
  AppendedFileTest() { tree_.Write("/precious", "precious"); }

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
  std::string Contents(const std::string& name) { return tree_.Read("/" + name); }

  const FakeTree tree_;
  const std::string folder_ = tree_.root();
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
    // A link to a file that does not exist: the file is not created.
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
  tree_.Write("/theirs", "theirs");
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
