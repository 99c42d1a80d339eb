// SPDX-License-Identifier: BSD-3-Clause
#include "image/file_search.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace cli {
namespace {

TEST(FileSearchTest, SaysWhenADirectoryHasTooManyFiles) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("file_search_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  constexpr int kMost = 20'000;
  for (int i = 0; i < kMost; ++i) {
    close(open((folder / std::to_string(i)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  }
  EXPECT_TRUE(FileSearch(0, {folder}).problems().empty());
  close(open((folder / "more").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const FileSearch files(0, {folder});
  ASSERT_EQ(files.problems().size(), 1u);
  EXPECT_NE(files.problems()[0].find(folder.string() + " has more than 20000 files"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cli
