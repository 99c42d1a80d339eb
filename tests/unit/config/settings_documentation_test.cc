// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "config/settings.h"
#include "config/settings_table.h"

namespace tcmalloc {
namespace {

std::string Documentation() {
  std::vector<char> buffer(size_t{64} << 10);
  TextWriter out(buffer.data(), buffer.size());
  WriteSettingsDocumentation(&out);
  EXPECT_FALSE(out.truncated());
  return std::string(out.text());
}

TEST(SettingsDocumentationTest, RowsHaveFourCellsAndTextIsBroken) {
  size_t rows = 0;
  std::istringstream text(Documentation());
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("| `") && rows < std::size(kSettingRows)) {
      ++rows;
      EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 5) << line;
      EXPECT_EQ(line.find("|  |"), std::string::npos) << line;
    }
    EXPECT_TRUE(line.starts_with("|") || line.size() <= 100) << line;
  }
  EXPECT_EQ(rows, std::size(kSettingRows));
}

// To write the file: WRITE_DOCS=1 build/release/bin/config_test
// --gtest_filter='SettingsDocumentation*'
TEST(SettingsDocumentationTest, TheFileIsTheTable) {
  if (getenv("WRITE_DOCS") != nullptr)
    std::ofstream(TCMALLOC_SETTINGS_DOCUMENTATION) << Documentation();
  std::ifstream file(TCMALLOC_SETTINGS_DOCUMENTATION);
  ASSERT_TRUE(file.good()) << "no " TCMALLOC_SETTINGS_DOCUMENTATION;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, Documentation())
      << "docs/settings.md differs from the table in src/config/settings_table.h. To write it "
         "anew: "
         "WRITE_DOCS=1 build/release/bin/config_test --gtest_filter='SettingsDocumentation*'";
}

}  // namespace
}  // namespace tcmalloc
