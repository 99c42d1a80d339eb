// SPDX-License-Identifier: BSD-3-Clause
// tests/process/profiles/reports_test.py tests what is written, and when.
#include <gtest/gtest.h>

#include "stats/stats.h"

namespace tcmalloc {
namespace {

TEST(StatsSeriesTest, Parsing) {
  StatsSeries series;
  ASSERT_TRUE(ParseStatsSeries("10s", &series));
  EXPECT_EQ(series.interval_ms, 10'000);
  EXPECT_TRUE(series.file.empty());
  ASSERT_TRUE(ParseStatsSeries("250ms,/tmp/a,b", &series));
  EXPECT_EQ(series.interval_ms, 250);
  EXPECT_EQ(series.file, "/tmp/a,b");
  for (const char* text : {"", "often", "0s", ",/tmp/a", "10s,", "10 s"}) {
    EXPECT_FALSE(ParseStatsSeries(text, &series)) << text;
  }
}

}  // namespace
}  // namespace tcmalloc
