// SPDX-License-Identifier: BSD-3-Clause
#include "config/setting.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tcmalloc {
namespace {

using Type = SettingType;
constexpr SettingRange kAnyNumber = {0, double{1ull << 50}};

std::optional<double> Parse(Type type, std::string_view text, SettingRange range = kAnyNumber) {
  const std::optional<SettingValue> value = ParseSettingValue(type, text, range);
  EXPECT_FALSE(value && value->is_percent) << text;
  return value ? std::optional(value->number) : std::nullopt;
}

// The compiler evaluates these, as it evaluates the table's defaults.
static_assert(ParseSettingValue(Type::kBytes, "1M", kAnyNumber)->number == 1 << 20);
static_assert(!ParseSettingValue(Type::kInteger, "x", kAnyNumber));

TEST(SettingValuesTest, Booleans) {
  for (const char* yes : {"1", "true", "TRUE", "True", "t", "T", "yes", "y", "Y", "on", "ON", ""}) {
    EXPECT_EQ(ParseBoolean(yes), true) << yes;
    EXPECT_EQ(Parse(Type::kBoolean, yes, {0, 1}), 1) << yes;
  }
  for (const char* no : {"0", "false", "FALSE", "f", "F", "no", "n", "N", "off", "Off"}) {
    EXPECT_EQ(ParseBoolean(no), false) << no;
    EXPECT_EQ(Parse(Type::kBoolean, no, {0, 1}), 0) << no;
  }
  for (const char* bad : {"2", "-1", "tru", "truee", "yess", " 1", "1 ", "01", "o", "enable", ",",
                          "1,true", "0,", "\xb1"}) {
    EXPECT_EQ(ParseBoolean(bad), std::nullopt) << bad;
    EXPECT_EQ(Parse(Type::kBoolean, bad, {0, 1}), std::nullopt) << bad;
  }
}

TEST(SettingValuesTest, Figures) {
  constexpr double kKi = 1 << 10;
  constexpr double kMi = 1 << 20;
  constexpr double kGi = 1 << 30;
  constexpr double kMost = kMi * kGi;
  const std::string many_nines(50, '9');
  const struct {
    std::vector<Type> types;
    SettingRange range;
    std::vector<std::pair<std::string, double>> good;
    std::vector<std::string> bad;
  } kRows[] = {
      {{Type::kInteger},
       kAnyNumber,
       {{"0", 0}, {"1", 1}, {"02", 2}, {"1125899906842624", kMost}},
       {"", "-1", "-", "+1", "1.0", "1.", "0x1", "1 ", " 1", "one", "1e0", "1K", "1125899906842625",
        many_nines}},
      {{Type::kNumber},
       {0, 1000},
       {{"0", 0},
        {"2.5", 2.5},
        {"0.125", 0.125},
        {"10", 10},
        {"1000", 1000},
        {"1000.0", 1000},
        {".5", 0.5},
        {"5.", 5},
        {"0001", 1},
        {std::string(5000, '0') + "4", 4}},
       {"", ".", "-1", "-0.5", "1000.1", "1001", "1e3", "1,5", "1..5", "1.5.", "nan", "inf", "0x10",
        " 1", "1 ", "one", std::string(5000, '9')}},
      {{Type::kBytes, Type::kBytesOrPercent},
       kAnyNumber,
       {{"0", 0},
        {"123456789", 123456789},
        {"3K", 3 * kKi},
        {"3k", 3 * kKi},
        {"16g", 16 * kGi},
        {"0001M", kMi},
        {"0G", 0},
        {"5mib", 5 * kMi},
        {"1024T", kMost}},
       {"", "%", "K", "-1", "0%", "101%", "50%%", "1.5G", "1P", "1KBB", "1 K", "1iB", "1MM", "1%1",
        "1048577G", many_nines}},
      {{Type::kMebibytes},
       {0, kGi},
       {{"0", 0},
        {"1", 1},
        {"4096", 4096},
        {"2048K", 2},
        {"3M", 3},
        {"4GiB", 4096},
        {"1024T", kGi}},
       {"", "-1", "1.5", "1K", "1500K", "50%", "1073741825", "1025T", "1m1", many_nines + "T"}},
      {{Type::kInteger, Type::kBytes},
       {-2048, 2048},
       {{"-1", -1}, {"-2048", -2048}, {"2048", 2048}, {"-0", 0}},
       {"-", "--1", "-2049", "2049", "- 1", "-x", "-1.5", "+1"}},
      {{Type::kInteger, Type::kBytes}, {1, 8}, {{"8", 8}}, {"0"}},
      {{Type::kBytes}, {-2048, 2048}, {{"-2K", -2048}}, {}},
      {{Type::kInteger}, {-2048, 2048}, {}, {"-2K"}},
  };
  for (const auto& [types, range, good, bad] : kRows) {
    for (const Type type : types) {
      for (const auto& [text, value] : good) EXPECT_EQ(Parse(type, text, range), value) << text;
      for (const auto& text : bad) EXPECT_EQ(Parse(type, text, range), std::nullopt) << text;
    }
  }
  EXPECT_NEAR(*Parse(Type::kNumber, "0." + std::string(5000, '3'), {0, 1000}), 1.0 / 3, 1e-12);
}

TEST(SettingValuesTest, Percentages) {
  for (const auto& [text, percent] :
       {std::pair("1%", 1.0), std::pair("80%", 80.0), std::pair("100%", 100.0)}) {
    const auto value = ParseSettingValue(Type::kBytesOrPercent, text, kAnyNumber);
    ASSERT_TRUE(value) << text;
    EXPECT_TRUE(value->is_percent);
    EXPECT_EQ(value->number, percent);
    EXPECT_EQ(Parse(Type::kBytes, text), std::nullopt) << "no other type has percentages";
    EXPECT_EQ(Parse(Type::kMebibytes, text), std::nullopt);
  }
}

}  // namespace

}  // namespace tcmalloc
