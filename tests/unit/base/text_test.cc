// SPDX-License-Identifier: BSD-3-Clause
#include "base/text.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

TEST(TextFieldsTest, ListMembers) {
  EXPECT_TRUE(ListHas("memory", "memory"));
  EXPECT_TRUE(ListHas("cpu,memory,pids", "memory"));
  EXPECT_TRUE(ListHas("cpu,memory", "memory"));
  EXPECT_FALSE(ListHas("cpu,memory2", "memory"));
  EXPECT_FALSE(ListHas("xmemory", "memory"));
  EXPECT_FALSE(ListHas("", "memory"));
  EXPECT_FALSE(ListHas(",,", "memory"));
}

TEST(TextFieldsTest, Numbers) {
  uint64_t value = 7;
  std::string_view text = "0012ms";
  ASSERT_TRUE(TakeNumber(&text, &value));
  EXPECT_EQ(value, 12u);
  EXPECT_EQ(text, "ms");
  text = "18446744073709551615";
  ASSERT_TRUE(TakeNumber(&text, &value));
  EXPECT_EQ(value, UINT64_MAX);
  EXPECT_TRUE(text.empty());
  for (const char* const bad : {"", "x", " 1", "-1", "+1", "18446744073709551616",
                                "18446744073709551620", "99999999999999999999999999"}) {
    text = bad;
    EXPECT_FALSE(TakeNumber(&text, &value)) << bad;
  }
  // Leading zeros do not count as digits.
  text = "00000000000000000000000000000000018446744073709551615";
  EXPECT_TRUE(TakeNumber(&text, &value));
}

int64_t Parsed(std::string_view text) {
  int64_t ms = -1;
  return ParseInterval(text, &ms) ? ms : -1;
}

TEST(DurationTest, Units) {
  EXPECT_EQ(Parsed("10ms"), 10);
  EXPECT_EQ(Parsed("1"), 1000);
  EXPECT_EQ(Parsed("90s"), 90'000);
  EXPECT_EQ(Parsed("5m"), 300'000);
  EXPECT_EQ(Parsed("720h"), int64_t{720} * 3'600'000);
}

TEST(DurationTest, RejectsOtherText) {
  for (const char* text : {"", "s", "0", "9ms", "-1s", "1.5s", "1 s", "1S", "1d", "1ss", "721h",
                           "99999999999999999999s", "2592000001ms"}) {
    EXPECT_EQ(Parsed(text), -1) << text;
  }
}

std::string Decimal(uint64_t value, size_t width) {
  char buffer[64];
  snprintf(buffer, sizeof(buffer), "%*" PRIu64, static_cast<int>(width), value);
  return buffer;
}

TEST(TextWriterTest, NumbersAgreeWithPrintf) {
  SeededRandom random(4);
  std::vector<uint64_t> values = {0, 1, 9, 10, 99, 100, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1};
  for (int i = 0; i < 1000; ++i) values.push_back(random.Next() >> random.Below(64));
  for (const uint64_t value : values) {
    for (const size_t width : {0, 1, 5, 12, 30}) {
      char buffer[64];
      TextWriter decimal(buffer, sizeof(buffer));
      decimal.Number(value, width);
      ASSERT_EQ(decimal.text(), Decimal(value, width));
    }
    char buffer[64];
    char expected[64];
    TextWriter hex(buffer, sizeof(buffer));
    hex.Hex(value);
    snprintf(expected, sizeof(expected), "0x%" PRIx64, value);
    ASSERT_EQ(hex.text(), expected);
  }
}

TEST(TextWriterTest, MebibytesHaveOneDecimalRoundedDown) {
  const auto written = [](uint64_t bytes, size_t width) {
    char buffer[64];
    TextWriter writer(buffer, sizeof(buffer));
    writer.Mebibytes(bytes, width);
    return std::string(writer.text());
  };
  constexpr uint64_t kMiB = 1 << 20;
  EXPECT_EQ(written(0, 0), "0.0");
  EXPECT_EQ(written(kMiB - 1, 0), "0.9");
  EXPECT_EQ(written(kMiB, 0), "1.0");
  EXPECT_EQ(written(kMiB + kMiB / 2, 0), "1.5");
  EXPECT_EQ(written(UINT64_MAX, 0), "17592186044415.9");
  EXPECT_EQ(written(3 * kMiB, 1), "3.0");
  EXPECT_EQ(written(3 * kMiB, 8), "     3.0");
  EXPECT_EQ(written(1234 * kMiB, 8), "  1234.0");
}

// For any text and any size of buffer: the buffer has a prefix of the text, terminated, and no byte
// after the buffer changes.
TEST(TextWriterTest, CutsOffTextThatDoesNotFit) {
  const std::string whole = "abc         42 0xff12.3 tail";
  for (size_t size = 1; size <= whole.size() + 3; ++size) {
    std::vector<char> buffer(size + 4, '#');
    TextWriter writer(buffer.data(), size);
    writer.Text("abc").Number(42, 11).Text(" ").Hex(255);
    EXPECT_EQ(writer.truncated(), size - 1 < whole.find("12.3")) << size;
    writer.Mebibytes((12 << 20) + 400'000).Text(" tail");
    const size_t length = std::min(size - 1, whole.size());
    EXPECT_EQ(writer.text(), whole.substr(0, length)) << size;
    EXPECT_EQ(strlen(buffer.data()), length);
    EXPECT_EQ(writer.truncated(), length < whole.size()) << size;
    EXPECT_EQ(writer.total_length(), whole.size()) << size;
    for (size_t i = size; i < buffer.size(); ++i) EXPECT_EQ(buffer[i], '#') << size;
  }
}

std::string Written(int64_t seconds) {
  char buffer[64];
  TextWriter out(buffer, sizeof(buffer));
  WriteUtcTime(seconds, &out);
  return buffer;
}

TEST(UtcTimeTest, AgreesWithTheCLibrary) {
  SeededRandom random(20261123);
  for (int i = 0; i < 20000; ++i) {
    // The times end in the year 2223, after 2100, which is no leap year, or with a 32-bit time_t.
    const uint64_t end = sizeof(time_t) == 4 ? uint64_t{INT32_MAX} : 8'000'000'000;
    const auto seconds = static_cast<int64_t>(random.Below(end));
    const time_t moment = static_cast<time_t>(seconds);
    tm parts = {};
    ASSERT_NE(gmtime_r(&moment, &parts), nullptr);
    char expected[64];
    strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%SZ", &parts);
    ASSERT_EQ(Written(seconds), expected) << seconds;
  }
}

}  // namespace
}  // namespace tcmalloc
