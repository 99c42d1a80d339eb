// SPDX-License-Identifier: BSD-3-Clause
#include "base/utc_time.h"

#include <gtest/gtest.h>
#include <time.h>

#include <string>

#include "testing/random.h"

namespace tcmalloc {
namespace {

std::string Written(int64_t seconds) {
  char buffer[64];
  TextWriter out(buffer, sizeof(buffer));
  WriteUtcTime(seconds, &out);
  return buffer;
}

TEST(UtcTimeTest, KnownTimes) {
  EXPECT_EQ(Written(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(Written(951'782'400 - 1), "2000-02-28T23:59:59Z");
  EXPECT_EQ(Written(951'782'400), "2000-02-29T00:00:00Z");
  EXPECT_EQ(Written(1'795'433'525), "2026-11-23T11:32:05Z");
  EXPECT_EQ(Written(4'107'542'400), "2100-03-01T00:00:00Z") << "2100 is no leap year";
}

TEST(UtcTimeTest, AgreesWithTheCLibrary) {
  SeededRandom random(20261123);
  for (int i = 0; i < 20000; ++i) {
    // The times end in the year 2038, as a signed 32-bit time_t does.
    const auto seconds = static_cast<int64_t>(random.Below(size_t{INT32_MAX}));
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
