// SPDX-License-Identifier: BSD-3-Clause
// Tests where the command searches for the files of a core.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "image/module_files.h"
#include "image/modules.h"

namespace cli {
namespace {

class FileSearchTest : public testing::Test {
 protected:
  FileSearchTest() { std::filesystem::create_directories(folder_); }
  ~FileSearchTest() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = testing::TempDir() + "file_search_" + std::to_string(getpid());
};

TEST_F(FileSearchTest, FindsAFileOfAnotherNameByItsBuildId) {
  std::filesystem::copy_file("/proc/self/exe", folder_ + "/other");
  const FileSearch self(getpid());
  const int own = self.Open("/proc/" + std::to_string(getpid()) + "/exe").descriptor;
  ASSERT_GE(own, 0);
  Module module;
  module.path = "/gone/program";
  module.build_id = BuildIdOf(own);
  close(own);
  if (module.build_id.empty()) GTEST_SKIP() << "the compiler gives programs no build id";
  const FileSearch search(0, {folder_});
  const std::vector<std::string> paths = search.PathsOf(module);
  EXPECT_EQ(std::count(paths.begin(), paths.end(), folder_ + "/other"), 1);
}

TEST_F(FileSearchTest, ADirectoryOfTooManyFilesHasALine) {
  constexpr int kMost = 20'000;
  for (int i = 0; i < kMost; ++i) std::ofstream(folder_ + "/" + std::to_string(i));
  EXPECT_TRUE(FileSearch(0, {folder_}).problems().empty());
  std::ofstream(folder_ + "/one_more");
  const FileSearch search(0, {folder_, folder_ + "/0"});
  ASSERT_EQ(search.problems().size(), 1u);
  EXPECT_EQ(search.problems()[0].find(folder_ + " has more than 20000 files: "), 0u)
      << search.problems()[0];
}

}  // namespace
}  // namespace cli
