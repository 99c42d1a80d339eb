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
