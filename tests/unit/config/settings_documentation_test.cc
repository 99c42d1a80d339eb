// SPDX-License-Identifier: BSD-3-Clause
// Tests that docs/settings.md agrees with the table of the settings.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "base/text.h"
#include "config/settings_table.h"

namespace tcmalloc {
namespace {

using Names = std::multiset<std::string, std::less<>>;

std::string Documentation() {
  std::ifstream file(TCMALLOC_SETTINGS_DOCUMENTATION);
  EXPECT_TRUE(file.good()) << "no " TCMALLOC_SETTINGS_DOCUMENTATION;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The row of a setting in the tables of the document.
std::string RowOf(const SettingRow& row) {
  static char text[8192];
  TextWriter out(text, sizeof(text));
  out.Text("| `").Text(row.setting.name.view()).Text("` | ").Text(ShownDefault(row.setting));
  out.Text(" | ");
  WriteSettingRange(row.setting, &out);
  out.Text(" | ").Text(row.meaning).Text(" |\n");
  EXPECT_FALSE(out.truncated());
  return std::string(out.text());
}

TEST(SettingsDocumentationTest, HasARowForEachSettingAndNoOther) {
  constexpr std::string_view kHead =
      "| variable | default | values | meaning |\n|---|---|---|---|\n";
  const std::string text = Documentation();
  Names rows;
  for (size_t at = text.find(kHead); at != std::string::npos; at = text.find(kHead, at)) {
    for (at += kHead.size(); text[at] == '|';) {
      const size_t end = text.find('\n', at) + 1;
      rows.insert(text.substr(at, end - at));
      at = end;
    }
  }
  for (const SettingRow& row : kSettingRows) {
    EXPECT_EQ(rows.erase(RowOf(row)), 1u) << "docs/settings.md is to have, once:\n" << RowOf(row);
  }
  for (const std::string& row : rows) ADD_FAILURE() << "no setting has this row:\n" << row;
}

// The names in quotes in the list that follows `head`.
Names ListAfter(std::string_view head) {
  const std::string text = Documentation();
  const size_t start = text.find(head);
  EXPECT_NE(start, std::string::npos) << head;
  const size_t list = text.find("\n* ", start);
  const size_t end = text.find("\n\n", list);
  Names names;
  for (size_t at = list; (at = text.find('`', at)) < end;) {
    const size_t last = text.find('`', at + 1);
    names.insert(text.substr(at + 1, last - at - 1));
    at = last + 1;
  }
  return names;
}

TEST(SettingsDocumentationTest, ListsTheSettingsWithoutEffect) {
  Names full;
  Names debug;
  for (const SettingRow& row : kSettingRows) {
    if (row.setting.Has(kFullLibrary)) full.emplace(row.setting.name.view());
    if (row.setting.Has(kDebugLibrary)) debug.emplace(row.setting.name.view());
  }
  EXPECT_EQ(ListAfter("`libtcmalloc_minimal` has no leak checker"), full);
  EXPECT_EQ(ListAfter("have an effect in `libtcmalloc_debug`"), debug);
  Names ignored;
  for (const IgnoredSettings& group : kIgnoredSettings) {
    for (std::string_view names = group.names; !names.empty();) {
      ignored.emplace(TakeField(&names, ','));
    }
  }
  EXPECT_EQ(ListAfter("they have no effect:"), ignored);
}

}  // namespace
}  // namespace tcmalloc
