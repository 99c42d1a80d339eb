// SPDX-License-Identifier: BSD-3-Clause
#include "os/processor.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace tcmalloc {
namespace {

TEST(ProcessorTest, IsOneOfThoseThatTheThreadMayUse) {
  const int cpu = CurrentProcessor();
  if (cpu < 0) GTEST_SKIP() << "SKIP: the OS does not tell";
  EXPECT_LT(cpu, CPU_SETSIZE);
}

TEST(ProcessorTest, OnlyDebugBuildsHaveFakeOnes) {
  static constexpr FakeProcessor kFake = {.cpu = [] { return 12'345; }};
  fake_processor.store(&kFake);
  EXPECT_EQ(CurrentProcessor() == 12'345, kDebugBuild);
  fake_processor.store(nullptr);
  EXPECT_NE(CurrentProcessor(), 12'345);
}

}  // namespace
}  // namespace tcmalloc
