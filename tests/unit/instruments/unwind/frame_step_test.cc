// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/frame_step.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace tcmalloc {
namespace {

// The test's own stack: the words of a page, with an unreadable page after it.
class FrameStepTest : public testing::Test {
 protected:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kWords = kPageBytes / sizeof(uintptr_t);
  static constexpr int64_t kUnit = static_cast<int64_t>(sizeof(uintptr_t));

  void SetUp() override {
    void* const pages =
        mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    words = static_cast<uintptr_t*>(pages);
    ASSERT_EQ(mprotect(words + kWords, kPageBytes, PROT_NONE), 0);
    for (size_t i = 0; i < kWords; ++i) words[i] = 1000 + i;
    registers.pc = 7;
    registers.values[CallFrameRule::kStackPointer] = At(8);
    registers.values[CallFrameRule::kFramePointer] = At(20);
    registers.values[CallFrameRule::kBase] = 3;
  }
  void TearDown() override { munmap(words, 2 * kPageBytes); }

  uintptr_t At(size_t word) const { return reinterpret_cast<uintptr_t>(words + word); }

  uintptr_t* words = nullptr;
  FrameRegisters registers;
  StackMemory memory;
};

TEST_F(FrameStepTest, RuleOfACall) {
  // The caller's frame is 4 words higher. The frame pointer is saved, RBX is not.
  const CallFrameRule rule = {.address = CallFrameRule::kRegister,
                              .frame_place = CallFrameRule::kFromAddress,
                              .frame_words = -2,
                              .address_offset = 4 * kUnit};
  EXPECT_TRUE(rule.address_register == CallFrameRule::kStackPointer && rule.return_words == -1);
  ASSERT_EQ(StepByRule(rule, &registers, &memory), FrameStep::kCalled);
  EXPECT_EQ(registers.pc, 1011u);
  EXPECT_EQ(registers.sp(), At(12));
  EXPECT_EQ(registers.fp(), 1010u);
  EXPECT_EQ(registers.values[CallFrameRule::kBase], 3u);
}

// An interrupted frame may be on another stack, at a lower address.
TEST_F(FrameStepTest, RuleOfASignalFrame) {
  words[10] = At(2);
  const CallFrameRule rule = {.address = CallFrameRule::kMemory,
                              .interrupted = 1,
                              .return_place = CallFrameRule::kFromStackPointer,
                              .return_words = 3,
                              .address_offset = 2 * kUnit};
  ASSERT_EQ(StepByRule(rule, &registers, &memory), FrameStep::kInterrupted);
  EXPECT_EQ(registers.pc, 1011u);
  EXPECT_EQ(registers.sp(), At(2));
}

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

TEST_F(FrameStepTest, FramePointer) {
  words[20] = At(40);
  ASSERT_EQ(StepByFramePointer(&registers, &memory), FrameStep::kCalled);
  EXPECT_EQ(registers.pc, 1021u);
  EXPECT_EQ(registers.sp(), At(22));
  EXPECT_EQ(registers.fp(), At(40));
  // These frame pointers are below the stack pointer, not aligned, in the unreadable page, half in
  // it, or null.
  for (const uintptr_t fp : {At(8), At(40) + 1, At(kWords), At(kWords - 1), uintptr_t{0}}) {
    registers.values[CallFrameRule::kFramePointer] = fp;
    EXPECT_EQ(StepByFramePointer(&registers, &memory), FrameStep::kEnd);
    EXPECT_EQ(registers.pc, 1021u);
  }
}

}  // namespace
}  // namespace tcmalloc
