// SPDX-License-Identifier: BSD-3-Clause
// tests/command/core_files_test.py tests where the command searches for the files of a core.
#include <gtest/gtest.h>

#include <string>

#include "image/module_files.h"
#include "testing/fake_tree.h"

namespace cli {
namespace {

TEST(FileSearchTest, ADirectoryOfTooManyFilesHasALine) {
  constexpr int kMost = 20'000;
  const tcmalloc::FakeTree tree;
  const std::string folder = tree.root();
  for (int i = 0; i < kMost; ++i) tree.Write("/" + std::to_string(i), "");
  EXPECT_TRUE(FileSearch(0, {folder}).problems().empty());
  tree.Write("/one_more", "");
  const FileSearch search(0, {folder, folder + "/0"});
  ASSERT_EQ(search.problems().size(), 1u);
  EXPECT_EQ(search.problems()[0].find(folder + " has more than 20000 files: "), 0u)
      << search.problems()[0];
}

}  // namespace
}  // namespace cli
