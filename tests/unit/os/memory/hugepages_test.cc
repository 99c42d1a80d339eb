// SPDX-License-Identifier: BSD-3-Clause
// Reads the OS's setting from files that the test writes, and tests the opt-out of a process.
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "os/memory/virtual_memory.h"
#include "testing/in_child.h"

namespace tcmalloc {
namespace {

class HugepagesTest : public testing::Test {
 protected:
  HugepagesTest() {
    // The process that runs the tests may have opted out.
    EXPECT_EQ(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
    char name[] = "/tmp/hugepages_test.XXXXXX";
    directory_ = mkdtemp(name);
    Write("enabled", "always [madvise] never\n");
    Write("hpage_pmd_size", "2097152\n");
  }
  ~HugepagesTest() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path file = directory_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void Remove(const std::string& name) { std::filesystem::remove_all(directory_ + "/" + name); }
  HugepageSetting Read() { return ReadHugepageSetting(directory_.c_str()); }
  // Reads the setting for a page size that does not determine the size of hugepages, so that it
  // must be read.
  HugepageSetting ReadWithLargePages() {
    return ReadHugepageSetting(directory_.c_str(), size_t{16} << 10);
  }

  std::string directory_;
};

TEST_F(HugepagesTest, TheWordInBracketsCounts) {
  const auto mode = [this](const char* text) {
    Write("enabled", text);
    return Read().mode;
  };
  EXPECT_EQ(mode("[always] madvise never\n"), HugepageMode::kAlways);
  EXPECT_EQ(mode("always [madvise] never\n"), HugepageMode::kAdvise);
  EXPECT_EQ(mode("always madvise [never]\n"), HugepageMode::kNever);
  // For an unknown word, perhaps of a later kernel, and for invalid settings, advice is used: it
  // does no harm.
  for (const char* const unknown :
       {"", "\n", "always madvise never\n", "always never [sometimes]\n", "[alway", "garbage\n"}) {
    EXPECT_EQ(mode(unknown), HugepageMode::kAdvise) << unknown;
  }
  EXPECT_EQ(mode(std::string(5000, 'x').c_str()), HugepageMode::kAdvise);
}

TEST_F(HugepagesTest, HugepagesOfAnotherSizeDoNotCount) {
  Write("enabled", "[always] madvise never\n");
  for (const char* const other : {"33554432\n", "536870912\n", "1048576\n", "0\n", "2097153\n"}) {
    Write("hpage_pmd_size", other);
    EXPECT_EQ(ReadWithLargePages().mode, HugepageMode::kNever) << other;
  }
  // These are no numbers, except the last one, which overflows 64 bits to 2 MiB.
  for (const char* const none : {"", "\n", "x\n", "-2097152\n", "18446744073711648768\n"}) {
    Write("hpage_pmd_size", none);
    EXPECT_EQ(ReadWithLargePages().mode, HugepageMode::kAlways) << none;
  }
  // The size of hugepages is not read if the page size determines it.
  if (sizeof(void*) == 8) {
    Write("hpage_pmd_size", "33554432\n");
    EXPECT_EQ(ReadHugepageSetting(directory_.c_str(), 4096).mode, HugepageMode::kAlways);
  }
}

TEST_F(HugepagesTest, AProcessThatOptedOut) {
  Write("enabled", "[always] madvise never\n");
  EXPECT_EQ(InChild([this] {
              if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) return 2;
              return Read().mode == HugepageMode::kNever ? 0 : 1;
            }),
            0);
  EXPECT_EQ(Read().mode, HugepageMode::kAlways);
}

}  // namespace
}  // namespace tcmalloc
