// SPDX-License-Identifier: BSD-3-Clause
#include "tools/stack/call_frame_program.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "tools/stack/call_frame_registers.h"

namespace tcmalloc {
namespace {

// Runs programs at the end of readable memory, so that an access beyond the end faults.
class CallFrameProgramTest : public testing::Test {
 protected:
  using Bytes = std::vector<uint8_t>;
  using Row = CallFrameRow;
  static constexpr uint8_t kStackPointer = DwarfRegister::kStackPointer;
  static constexpr uint8_t kFramePointer = DwarfRegister::kFramePointer;
  static constexpr uint8_t kBase = DwarfRegister::kBase;
  static constexpr uint8_t kReturn = DwarfRegister::kReturn;
  static constexpr uintptr_t kFunction = 0x10000;
  static constexpr size_t kPage = 4096;

  void SetUp() override {
    area_ =
        static_cast<char*>(mmap(nullptr, 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(area_, MAP_FAILED);
    ASSERT_EQ(mprotect(area_, kPage, PROT_READ | PROT_WRITE), 0);
  }
  void TearDown() override { munmap(area_, 2 * kPage); }

  // Computes the row of the instruction at `offset` of the function.
  bool Run(const Bytes& first, const Bytes& own, uintptr_t offset = 0) {
    row = {};
    char* const own_at = area_ + kPage - own.size();
    char* const initial_at = own_at - first.size();
    std::copy(first.begin(), first.end(), initial_at);
    std::copy(own.begin(), own.end(), own_at);
    const uintptr_t begin = reinterpret_cast<uintptr_t>(initial_at);
    const uintptr_t middle = reinterpret_cast<uintptr_t>(own_at);
    const CallFrameContext context = {.code_alignment = 2,
                                      .data_alignment = -8,
                                      .encoding = CallFrameReader::kAbsolute,
                                      .function = kFunction,
                                      .pc = kFunction + offset};
    return RunCallFramePrograms(context, CallFrameReader({begin, middle, 0}, begin),
                                CallFrameReader({middle, middle + own.size(), 0}, middle), &row);
  }

  Row row;
  // The frame's address is the stack pointer + 8, and the return address is below it.
  const Bytes initial = {0x0c, kStackPointer, 8, 0x80 | kReturn, 1};

 private:
  char* area_ = nullptr;
};

// Tests each form of advance, in units of the code alignment, and set_loc.
TEST_F(CallFrameProgramTest, Locations) {
  Bytes set_loc = {0x01};
  const uintptr_t target = kFunction + 6;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&target);
  set_loc.insert(set_loc.end(), bytes, bytes + sizeof(target));
  for (Bytes advance :
       {Bytes{0x43}, Bytes{0x02, 3}, Bytes{0x03, 3, 0}, Bytes{0x04, 3, 0, 0, 0}, set_loc}) {
    const uint8_t operation = advance[0];
    advance.insert(advance.end(), {0x0e, 48});
    ASSERT_TRUE(Run(initial, advance, 5));
    EXPECT_EQ(row.address_register, kStackPointer);
    EXPECT_EQ(row.saved[Row::kReturn].offset, -8);
    EXPECT_EQ(row.address_offset, 8) << int{operation};
    ASSERT_TRUE(Run(initial, advance, 6));
    EXPECT_EQ(row.address_offset, 48) << int{operation};
  }
}

TEST_F(CallFrameProgramTest, SavedRegisters) {
  // The forms are offset, offset_extended, offset_extended_sf and GNU_negative_offset_extended.
  // Their offsets are 2 * -8 or 2 * 8.
  const std::pair<Bytes, int64_t> forms[] = {{{0x80 | kFramePointer, 2}, -16},
                                             {{0x05, kFramePointer, 2}, -16},
                                             {{0x11, kFramePointer, 0x7e}, 16},
                                             {{0x2f, kFramePointer, 2}, 16}};
  for (const auto& [program, offset] : forms) {
    ASSERT_TRUE(Run(initial, program));
    EXPECT_EQ(row.saved[Row::kFrame].place, CallFrameRule::kFromAddress) << int{program[0]};
    EXPECT_EQ(row.saved[Row::kFrame].offset, offset) << int{program[0]};
    EXPECT_FALSE(row.saved[Row::kFrame].lost);
    EXPECT_EQ(row.saved[Row::kBase].place, CallFrameRule::kUnchanged);
  }
  // restore and restore_extended restore the rule of the initial row, same_value that of an
  // unchanged register.
  for (const Bytes& restore : {Bytes{0xc0 | kReturn}, Bytes{0x06, kReturn}}) {
    Bytes program = {0x80 | kReturn, 5};
    program.insert(program.end(), restore.begin(), restore.end());
    ASSERT_TRUE(Run(initial, program));
    EXPECT_EQ(row.saved[Row::kReturn].offset, -8);
  }
  ASSERT_TRUE(Run(initial, {0x08, kReturn}));
  EXPECT_EQ(row.saved[Row::kReturn].place, CallFrameRule::kUnchanged);
  ASSERT_TRUE(Run(initial, {0x07, kReturn}));
  EXPECT_TRUE(row.saved[Row::kReturn].undefined);
  // Registers without a column are read and dropped.
  ASSERT_TRUE(Run(initial, {0x80 | 12, 3, 0x80 | kBase, 4}));
  // The link register is the column of the return address.
  const Row::Column base = kBase == kReturn ? Row::kReturn : Row::kBase;
  EXPECT_EQ(row.saved[base].offset, -32);
}

TEST_F(CallFrameProgramTest, FrameAddress) {
  ASSERT_TRUE(Run(initial, {0x0d, kFramePointer}));
  EXPECT_EQ(row.address_register, kFramePointer);
  EXPECT_EQ(row.address_offset, 8) << "def_cfa_register keeps the offset";
  ASSERT_TRUE(Run(initial, {0x12, kFramePointer, 0x7e}));
  EXPECT_EQ(row.address_offset, 16) << "def_cfa_sf: -2 * -8";
  ASSERT_TRUE(Run(initial, {0x13, 0x7d}));
  EXPECT_EQ(row.address_offset, 24) << "def_cfa_offset_sf: -3 * -8";
  ASSERT_TRUE(Run(initial, {0x2e, 0x85, 0x01}));
  EXPECT_EQ(row.address_offset, 8) << "GNU_args_size changes nothing";
}

TEST_F(CallFrameProgramTest, RememberedStates) {
  const Bytes program = {0x0a, 0x0e, 32, 0x41, 0x0b};
  ASSERT_TRUE(Run(initial, program, 0));
  EXPECT_EQ(row.address_offset, 32);
  ASSERT_TRUE(Run(initial, program, 2));
  EXPECT_EQ(row.address_offset, 8);
  EXPECT_FALSE(Run(initial, {0x0b})) << "nothing was remembered";
  EXPECT_TRUE(Run(initial, Bytes(4, 0x0a)));
  EXPECT_FALSE(Run(initial, Bytes(5, 0x0a))) << "nested too deeply";
}

}  // namespace
}  // namespace tcmalloc
