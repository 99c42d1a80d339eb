// SPDX-License-Identifier: BSD-3-Clause
#include "config/setting.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

TEST(SettingValuesTest, Integers) {
  for (const auto& [text, value] : {std::pair("0", 0.0), std::pair("1", 1.0), std::pair("02", 2.0),
                                    std::pair("1125899906842624", 1125899906842624.0)}) {
    EXPECT_EQ(Parse(Type::kInteger, text), value) << text;
  }
  for (const char* bad : {"", "-1", "-", "+1", "1.0", "1.", "0x1", "1 ", " 1", "one", "1e0", "1K",
                          "1125899906842625", "99999999999999999999999999999999999999999"}) {
    EXPECT_EQ(Parse(Type::kInteger, bad), std::nullopt) << bad;
  }
}

TEST(SettingValuesTest, Numbers) {
  constexpr SettingRange kRange = {0, 1000};
  for (const auto& [text, value] :
       {std::pair("0", 0.0), std::pair("1", 1.0), std::pair("2.5", 2.5), std::pair("0.125", 0.125),
        std::pair("10", 10.0), std::pair("1000", 1000.0), std::pair("1000.0", 1000.0),
        std::pair(".5", 0.5), std::pair("5.", 5.0), std::pair("0001", 1.0)}) {
    EXPECT_EQ(Parse(Type::kNumber, text, kRange), value) << text;
  }
  for (const char* bad : {"", ".", "-1", "-0.5", "1000.1", "1001", "1e3", "1,5", "1..5", "1.5.",
                          "nan", "inf", "0x10", " 1", "1 ", "one"}) {
    EXPECT_EQ(Parse(Type::kNumber, bad, kRange), std::nullopt) << bad;
  }
  EXPECT_EQ(Parse(Type::kNumber, std::string(5000, '9'), kRange), std::nullopt)
      << "larger than any double";
  EXPECT_NEAR(*Parse(Type::kNumber, "0." + std::string(5000, '3'), kRange), 1.0 / 3, 1e-12);
  EXPECT_EQ(Parse(Type::kNumber, std::string(5000, '0') + "4", kRange), 4);
}

TEST(SettingValuesTest, Bytes) {
  for (const auto& [text, value] :
       {std::pair("0", uint64_t{0}), std::pair("123456789", uint64_t{123456789}),
        std::pair("3K", uint64_t{3} << 10), std::pair("3k", uint64_t{3} << 10),
        std::pair("16g", uint64_t{16} << 30), std::pair("0001M", uint64_t{1} << 20),
        std::pair("0G", uint64_t{0}), std::pair("5mib", uint64_t{5} << 20),
        std::pair("1024T", uint64_t{1} << 50)}) {
    EXPECT_EQ(Parse(Type::kBytes, text), static_cast<double>(value)) << text;
    EXPECT_EQ(Parse(Type::kBytesOrPercent, text), static_cast<double>(value)) << text;
  }
  for (const char* bad : {"", "%", "K", "-1", "0%", "101%", "50%%", "1.5G", "1P", "1KBB", "1 K",
                          "1iB", "1MM", "1%1", "1048577G", "99999999999999999999999999"}) {
    EXPECT_EQ(Parse(Type::kBytes, bad), std::nullopt) << bad;
    EXPECT_EQ(Parse(Type::kBytesOrPercent, bad), std::nullopt) << bad;
  }
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

TEST(SettingValuesTest, Mebibytes) {
  constexpr SettingRange kRange = {0, double{1 << 30}};
  for (const auto& [text, value] :
       {std::pair("0", 0), std::pair("1", 1), std::pair("4096", 4096), std::pair("2048K", 2),
        std::pair("3M", 3), std::pair("4GiB", 4096), std::pair("1024T", 1 << 30)}) {
    EXPECT_EQ(Parse(Type::kMebibytes, text, kRange), value) << text;
  }
  for (const char* bad : {"", "-1", "1.5", "1K", "1500K", "50%", "1073741825", "1025T", "1m1",
                          "99999999999999999999T"}) {
    EXPECT_EQ(Parse(Type::kMebibytes, bad, kRange), std::nullopt) << bad;
  }
}

TEST(SettingValuesTest, NumbersBelowZero) {
  constexpr SettingRange kRange = {-2048, 2048};
  for (const Type type : {Type::kInteger, Type::kBytes}) {
    for (const auto& [text, value] : {std::pair("-1", -1.0), std::pair("-2048", -2048.0),
                                      std::pair("2048", 2048.0), std::pair("-0", 0.0)}) {
      EXPECT_EQ(Parse(type, text, kRange), value) << text;
    }
    for (const char* bad : {"-", "--1", "-2049", "2049", "- 1", "-x", "-1.5", "+1"}) {
      EXPECT_EQ(Parse(type, bad, kRange), std::nullopt) << bad;
    }
    EXPECT_EQ(Parse(type, "0", {1, 8}), std::nullopt) << "below the range";
  }
  EXPECT_EQ(Parse(Type::kBytes, "-2K", kRange), -2048);
  EXPECT_EQ(Parse(Type::kInteger, "-2K", kRange), std::nullopt);
}

}  // namespace

}  // namespace tcmalloc
