// SPDX-License-Identifier: BSD-3-Clause
#include "image/memory_access.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "cli/fake_image.h"

namespace cli {
namespace {

constexpr Address kCode = 0x1000;
constexpr uint64_t kFirst = 0x10000;  // the first register's value; the second has twice that value

// Register i of the machine's list has (i + 1) * kFirst, and the instruction pointer kCode.
ThreadRegisters Registers(uint16_t elf) {
  ThreadRegisters thread{.machine = FindMachine(elf)};
  const Machine& machine = *thread.machine;
  thread.set.resize(machine.bytes());
  const auto set = [&](size_t place, uint64_t value) {
    memcpy(&thread.set[place * machine.word_bytes], &value, machine.word_bytes);
  };
  for (size_t i = 0; i < machine.general.size(); ++i) {
    set(machine.general[i].place, (i + 1) * kFirst);
  }
  set(machine.instruction_place, kCode);
  return thread;
}

uint64_t ValueOf(const ThreadRegisters& thread, std::string_view name) {
  for (const Register& one : thread.General()) {
    if (one.name == name) return one.value;
  }
  return 0;
}

std::optional<MemoryAccess> Decode(const ThreadRegisters& thread, const std::string& code,
                                   std::optional<Address> fault = std::nullopt) {
  FakeImage image;
  image.Put(kCode, code);
  return DecodeAccess(thread, image, fault);
}

#define CODE(text) std::string(text, sizeof(text) - 1)

struct Case {
  const char* what;
  std::string code;
  bool reads, writes;
  std::vector<std::string_view> registers;
  uint64_t offset;          // added to the sum of the registers
  uint64_t last_scale = 1;  // of the last register
};

void Check(uint16_t elf, const std::vector<Case>& cases) {
  const ThreadRegisters thread = Registers(elf);
  for (const Case& one : cases) {
    const auto access = Decode(thread, one.code);
    ASSERT_TRUE(access.has_value()) << one.what;
    EXPECT_EQ(access->reads, one.reads) << one.what;
    EXPECT_EQ(access->writes, one.writes) << one.what;
    EXPECT_EQ(access->registers, one.registers) << one.what;
    uint64_t address = one.offset;
    for (const std::string_view name : one.registers) {
      address += ValueOf(thread, name) * (name == one.registers.back() ? one.last_scale : 1);
    }
    EXPECT_EQ(access->address, address) << one.what;
  }
}

// Instructions as an assembler encodes them.
TEST(MemoryAccessTest, Of64Bits) {
  Check(
      EM_X86_64,
      {
          {"mov (%rdi),%eax", CODE("\x8b\x07"), true, false, {"rdi"}, 0},
          {"mov -8(%rbp),%rcx", CODE("\x48\x8b\x4d\xf8"), true, false, {"rbp"}, uint64_t(-8)},
          {"mov 0x1000(%r12),%rax",
           CODE("\x49\x8b\x84\x24\x00\x10\x00\x00"),
           true,
           false,
           {"r12"},
           0x1000},
          {"movb $1,(%rax,%r9)", CODE("\x42\xc6\x04\x08\x01"), false, true, {"rax", "r9"}, 0},
          {"addq $1,8(%rdx)", CODE("\x48\x83\x42\x08\x01"), true, true, {"rdx"}, 8},
          {"cmpl $0,(%rsi)", CODE("\x83\x3e\x00"), true, false, {"rsi"}, 0},
          {"lock xadd %eax,(%rcx)", CODE("\xf0\x0f\xc1\x01"), true, true, {"rcx"}, 0},
          {"movzbl (%rdi),%eax", CODE("\x0f\xb6\x07"), true, false, {"rdi"}, 0},
          {"movups %xmm0,(%rdi)", CODE("\x0f\x11\x07"), false, true, {"rdi"}, 0},
          {"movdqu 0x20(%rsi),%xmm1", CODE("\xf3\x0f\x6f\x4e\x20"), true, false, {"rsi"}, 0x20},
          {"sete (%rbx)", CODE("\x0f\x94\x03"), false, true, {"rbx"}, 0},
          {"vmovdqu %ymm0,(%rdi)", CODE("\xc5\xfe\x7f\x07"), false, true, {"rdi"}, 0},
          {"vmovdqu (%r8),%ymm1", CODE("\xc4\xc1\x7e\x6f\x08"), true, false, {"r8"}, 0},
          {"vmovdqu64 %zmm0,(%rdi)", CODE("\x62\xf1\xfe\x48\x7f\x07"), false, true, {"rdi"}, 0},
          {"push %rax", CODE("\x50"), false, true, {"rsp"}, uint64_t(-8)},
          {"ret", CODE("\xc3"), true, false, {"rsp"}, 0},
          {"mov 4(%rbx,%rcx,4),%eax", CODE("\x8b\x44\x8b\x04"), true, false, {"rbx", "rcx"}, 4, 4},
          {"rep stos %al,(%rdi)", CODE("\xf3\xaa"), false, true, {"rdi"}, 0},
      });
}

TEST(MemoryAccessTest, Of32Bits) {
  Check(EM_386, {
                    {"mov (%edi),%eax", CODE("\x8b\x07"), true, false, {"edi"}, 0},
                    {"mov %eax,0x10(%ebx)", CODE("\x89\x43\x10"), false, true, {"ebx"}, 0x10},
                    {"inc of no REX: 40 is not a prefix", CODE("\xff\x00"), true, true, {"eax"}, 0},
                    {"vmovdqu %ymm0,(%edi)", CODE("\xc5\xfe\x7f\x07"), false, true, {"edi"}, 0},
                });
}

TEST(MemoryAccessTest, Of64BitArm) {
  Check(
      EM_AARCH64,
      {
          {"ldr w0,[x1]", CODE("\x20\x00\x40\xb9"), true, false, {"x1"}, 0},
          {"str x0,[x2,#16]", CODE("\x40\x08\x00\xf9"), false, true, {"x2"}, 16},
          {"ldur x3,[x29,#-8]", CODE("\xa3\x83\x5f\xf8"), true, false, {"x29"}, uint64_t(-8)},
          {"strb w0,[x4],#1", CODE("\x80\x14\x00\x38"), false, true, {"x4"}, 0},
          {"ldr x0,[x5,#8]!", CODE("\xa0\x8c\x40\xf8"), true, false, {"x5"}, 8},
          {"ldp x0,x1,[x6,#32]", CODE("\xc0\x04\x42\xa9"), true, false, {"x6"}, 32},
          {"stp x0,x1,[sp,#-16]!", CODE("\xe0\x07\xbf\xa9"), false, true, {"sp"}, uint64_t(-16)},
          {"ldpsw x0,x1,[x7,#8]", CODE("\xe0\x04\x41\x69"), true, false, {"x7"}, 8},
          {"ldrsw x0,[x8,#4]", CODE("\x00\x05\x80\xb9"), true, false, {"x8"}, 4},
          {"ldrb w0,[x9,x10]", CODE("\x20\x69\x6a\x38"), true, false, {"x9", "x10"}, 0},
          {"ldxr x0,[x15]", CODE("\xe0\x7d\x5f\xc8"), true, false, {"x15"}, 0},
          {"stlxr w0,x1,[x16]", CODE("\x01\xfe\x00\xc8"), false, true, {"x16"}, 0},
          {"ldar w0,[x17]", CODE("\x20\xfe\xdf\x88"), true, false, {"x17"}, 0},
          {"cas x0,x1,[x19]", CODE("\x61\x7e\xa0\xc8"), true, true, {"x19"}, 0},
          {"casp x0,x1,x2,x3,[x20]", CODE("\x82\x7e\x20\x48"), true, true, {"x20"}, 0},
          {"ldadd x0,x1,[x21]", CODE("\xa1\x02\x20\xf8"), true, true, {"x21"}, 0},
          {"ldapr x0,[x23]", CODE("\xe0\xc2\xbf\xf8"), true, false, {"x23"}, 0},
          {"ldapur x0,[x24,#-8]", CODE("\x00\x83\x5f\xd9"), true, false, {"x24"}, uint64_t(-8)},
          {"stlur w0,[x25,#12]", CODE("\x20\xc3\x00\x99"), false, true, {"x25"}, 12},
          {"ld1 {v0.16b},[x26],#16", CODE("\x40\x73\xdf\x4c"), true, false, {"x26"}, 0},
          {"ld1 {v0.b}[3],[x28]", CODE("\x80\x0f\x40\x0d"), true, false, {"x28"}, 0},
          {"dc zva,x3", CODE("\x23\x74\x0b\xd5"), false, true, {"x3"}, 0},
          {"ldr x0,.+16", CODE("\x80\x00\x00\x58"), true, false, {}, kCode + 16},
          {"str x0,[x11,x12,lsl #3]", CODE("\x60\x79\x2c\xf8"), false, true, {"x11", "x12"}, 0, 8},
          {"ldr w0,[x13,w14,sxtw #2]", CODE("\xa0\xd9\x6e\xb8"), true, false, {"x13", "x14"}, 0, 4},
          {"ldr q1,[x1,x2,lsl #4]", CODE("\x21\x78\xe2\x3c"), true, false, {"x1", "x2"}, 0, 16},
          {"ldxp x0,x1,[x3]", CODE("\x60\x04\x7f\xc8"), true, false, {"x3"}, 0},
      });
  const ThreadRegisters thread = Registers(EM_AARCH64);
  for (const std::string& none : {
           CODE("\x00\x00\x80\xf9"),  // prfm [x0]
           CODE("\x00\x68\xa1\xf8"),  // prfm [x0,x1]
           CODE("\x00\x80\x9f\xf8"),  // prfum [x0,#-8]
           CODE("\x20\x00\x02\x8b"),  // add
           CODE("\xa0\x00\x80\xd2"),  // mov
           CODE("\x00\x00\x00\x14"),  // b
           CODE("\x1f\x20\x03\xd5"),  // nop
           CODE("\x20\x00\x40"),      // cut
       }) {
    EXPECT_FALSE(Decode(thread, none).has_value()) << testing::PrintToString(none);
  }
}

TEST(MemoryAccessTest, TheFaultChoosesAmongTwo) {
  const ThreadRegisters thread = Registers(EM_X86_64);
  const std::string move = CODE("\xf3\xa4");  // rep movsb (%rsi),(%rdi)
  EXPECT_TRUE(Decode(thread, move, ValueOf(thread, "rdi"))->writes);
  EXPECT_TRUE(Decode(thread, move, ValueOf(thread, "rsi"))->reads);
  EXPECT_FALSE(Decode(thread, move, ValueOf(thread, "rsi"))->writes);
  // A wide access begins on the page before the fault.
  EXPECT_TRUE(Decode(thread, move, ValueOf(thread, "rsi") + 15)->reads);
}

TEST(MemoryAccessTest, KnowsWhereJumpsGo) {
  const ThreadRegisters thread = Registers(EM_X86_64);
  EXPECT_EQ(Decode(thread, CODE("\xff\xd0"))->target, ValueOf(thread, "rax"));      // call *%rax
  EXPECT_EQ(Decode(thread, CODE("\x41\xff\xe3"))->target, ValueOf(thread, "r11"));  // jmp *%r11
  const auto access = Decode(thread, CODE("\xff\x50\x18"));  // call *0x18(%rax)
  ASSERT_TRUE(access.has_value());
  EXPECT_TRUE(access->jumps);
  EXPECT_FALSE(access->target.has_value());
  EXPECT_EQ(access->address, ValueOf(thread, "rax") + 0x18);
  EXPECT_TRUE(Decode(thread, CODE("\xc3"))->jumps);  // ret
  const ThreadRegisters arm = Registers(EM_AARCH64);
  EXPECT_EQ(Decode(arm, CODE("\xc0\x00\x3f\xd6"))->target, ValueOf(arm, "x6"));  // blr x6
  EXPECT_TRUE(Decode(arm, CODE("\xc0\x03\x5f\xd6"))->jumps);                     // ret
}

TEST(MemoryAccessTest, SaysNothingOfWhatItDoesNotKnow) {
  const ThreadRegisters thread = Registers(EM_X86_64);
  for (const std::string& code : {CODE("\x90"),          // nop
                                  CODE("\x0f\x0b"),      // ud2
                                  CODE("\x48\x8d\x07"),  // lea (%rdi),%rax
                                  CODE("\x48\x89\xc3"),  // mov %rax,%rbx
                                  CODE("\x48\x8b"),      // cut
                                  CODE("\x8b\x84"),      // cut
                                  std::string()}) {
    EXPECT_FALSE(Decode(thread, code).has_value()) << testing::PrintToString(code);
  }
  // The address is relative to the end of the instruction.
  const auto access = Decode(thread, CODE("\x8b\x05\x10\x00\x00\x00"));
  ASSERT_TRUE(access.has_value());
  EXPECT_FALSE(access->address.has_value());
}

TEST(MemoryAccessTest, AnyBytesAreDecodedOrNot) {
  constexpr unsigned kSeed = 20261125;
  std::mt19937 random(kSeed);
  for (const uint16_t elf : {EM_X86_64, EM_386, EM_AARCH64}) {
    const ThreadRegisters thread = Registers(elf);
    for (int i = 0; i < 20000; ++i) {
      std::string code;
      for (size_t n = random() % 16; n > 0; --n) code.push_back(static_cast<char>(random()));
      const auto access = Decode(thread, code, random());
      if (!access.has_value()) continue;
      EXPECT_TRUE(access->reads || access->writes || access->target.has_value());
    }
  }
}

}  // namespace
}  // namespace cli
