// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "base/config.h"

namespace tcmalloc {
namespace {

TEST(CheckDeathTest, FailurePrintsPlaceAndConditionAndAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int two = 2;
  EXPECT_EXIT(TC_CHECK(two == 3), testing::KilledBySignal(SIGABRT),
              "^tcmalloc: .*check_test\\.cc:[0-9]+: check failed: two == 3\n");
}

TEST(CheckDeathTest, AssertFailsInDebugBuildsAndIsNotEvaluatedInOthers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  int evaluated = 0;
  if constexpr (kDebugBuild) {
    EXPECT_EXIT(TC_ASSERT(++evaluated == 2), testing::KilledBySignal(SIGABRT),
                "check failed: \\+\\+evaluated == 2\n");
  } else {
    TC_ASSERT(++evaluated == 2);
    EXPECT_EQ(evaluated, 0);
  }
}

}  // namespace
}  // namespace tcmalloc
