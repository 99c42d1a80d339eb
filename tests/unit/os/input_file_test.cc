// SPDX-License-Identifier: BSD-3-Clause
#include "os/input_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/fake_tree.h"

namespace tcmalloc {
namespace {

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

}  // namespace
}  // namespace tcmalloc
