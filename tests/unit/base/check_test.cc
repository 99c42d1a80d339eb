// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "base/config.h"

namespace tcmalloc {
namespace {

// tests/unit/os/log_test.cc has the line of a failure.
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
