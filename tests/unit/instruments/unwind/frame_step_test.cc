// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/frame_step.h"

#include <gtest/gtest.h>

#include "testing/guarded_pages.h"

namespace tcmalloc {
namespace {

// The test's own stack: the words of a page, with an unreadable page after it.
class FrameStepTest : public testing::Test {
 protected:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kWords = kPageBytes / sizeof(uintptr_t);
  static constexpr int64_t kUnit = static_cast<int64_t>(sizeof(uintptr_t));

  FrameStepTest() {
    for (size_t i = 0; i < kWords; ++i) words[i] = 1000 + i;
    registers.pc = 7;
    registers.values[CallFrameRule::kStackPointer] = At(8);
    registers.values[CallFrameRule::kFramePointer] = At(20);
    registers.values[CallFrameRule::kBase] = 3;
  }

  uintptr_t At(size_t word) const { return reinterpret_cast<uintptr_t>(words + word); }

  const GuardedPages page{kPageBytes};
  uintptr_t* const words = reinterpret_cast<uintptr_t*>(page.data());
  FrameRegisters registers;
  StackMemory memory;
};

// The return address is in the link register: the function has no frame, or a frame that does not
// contain it.
TEST_F(FrameStepTest, ReturnAddressInARegister) {
  CallFrameRule rule = {.address = CallFrameRule::kRegister,
                        .return_place = CallFrameRule::kUnchanged};
  registers.values[CallFrameRule::kBase] = 0x1230;
  ASSERT_EQ(StepByRule(rule, &registers, &memory), FrameStep::kCalled);
  EXPECT_EQ(registers.pc, 0x1230u);
  EXPECT_EQ(registers.sp(), At(8));
  EXPECT_EQ(registers.fp(), At(20));
  rule.address_offset = 2 * kUnit;
  ASSERT_EQ(StepByRule(rule, &registers, &memory), FrameStep::kCalled);
  EXPECT_EQ(registers.sp(), At(10));
  rule.address_offset = -kUnit;
  EXPECT_EQ(StepByRule(rule, &registers, &memory), FrameStep::kEnd);
}

// If a rule does not lead to a frame, the registers stay unchanged.
TEST_F(FrameStepTest, RulesThatLeadNowhere) {
  const FrameRegisters before = registers;
  const auto step = [&](const CallFrameRule& rule) {
    const FrameStep result = StepByRule(rule, &registers, &memory);
    EXPECT_EQ(registers.pc, before.pc);
    EXPECT_EQ(registers.sp(), before.sp());
    return result;
  };
  EXPECT_EQ(step({}), FrameStep::kNoRule);
  EXPECT_EQ(step({.address = CallFrameRule::kOutermost}), FrameStep::kEnd);
  // The caller's frame is not above this one, or its return address is in the unreadable page, or
  // it is too far away.
  EXPECT_EQ(step({.address = CallFrameRule::kRegister, .address_offset = 0}), FrameStep::kEnd);
  EXPECT_EQ(step({.address = CallFrameRule::kRegister, .address_offset = -kUnit}), FrameStep::kEnd);
  const int64_t to_end = static_cast<int64_t>(kWords - 8) * kUnit;
  EXPECT_EQ(step({.address = CallFrameRule::kRegister, .address_offset = to_end + kUnit}),
            FrameStep::kEnd);
  EXPECT_EQ(step({.address = CallFrameRule::kMemory, .address_offset = to_end}), FrameStep::kEnd);
  words[9] = At(9) + (size_t{1} << 30);
  EXPECT_EQ(step({.address = CallFrameRule::kMemory, .address_offset = kUnit}), FrameStep::kEnd);
  // The last word of the page is readable.
  ASSERT_EQ(StepByRule({.address = CallFrameRule::kRegister, .address_offset = to_end}, &registers,
                       &memory),
            FrameStep::kCalled);
  EXPECT_EQ(registers.pc, 1000 + kWords - 1);
}

// If rules are not trusted, each page needs a system call, but the result is the same.
TEST_F(FrameStepTest, RuleWithoutTrust) {
  EXPECT_EQ(memory.Trusted(At(8)), kPageBytes - 8 * sizeof(uintptr_t));
  memory.DistrustRules();
  EXPECT_EQ(memory.Trusted(At(8)), 0u);
  const CallFrameRule rule = {.address = CallFrameRule::kRegister, .address_offset = 4 * kUnit};
  ASSERT_EQ(StepByRule(rule, &registers, &memory), FrameStep::kCalled);
  EXPECT_EQ(registers.pc, 1011u);
}

}  // namespace
}  // namespace tcmalloc
