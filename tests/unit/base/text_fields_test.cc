// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"

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

}  // namespace

}  // namespace tcmalloc
