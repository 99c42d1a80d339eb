// SPDX-License-Identifier: BSD-3-Clause
#include "base/duration.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

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
