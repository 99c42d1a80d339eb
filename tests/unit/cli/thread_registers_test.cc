// SPDX-License-Identifier: BSD-3-Clause
#include "image/thread_registers.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/procfs.h>
#include <sys/user.h>

#include <csignal>
#include <cstring>
#include <string>

namespace cli {
namespace {

template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

uint64_t Value(const ThreadRegisters& thread, std::string_view name) {
  for (const Register& one : thread.General()) {
    if (one.name == name) return one.value;
  }
  ADD_FAILURE() << name;
  return 0;
}

#if defined(__x86_64__)
TEST(ThreadRegistersTest, TheStatusIsThatOfThisMachinesHeaders) {
  user_regs_struct set = {};
  set.rax = 1;
  set.r15 = 3;
  set.rip = 4;
  set.rsp = 5;
  set.fs_base = 7;
  elf_prstatus status = {};
  status.pr_pid = 77;
  status.pr_cursig = SIGSEGV;
  static_assert(sizeof(status.pr_reg) == sizeof(set));
  memcpy(&status.pr_reg, &set, sizeof(set));
  const auto thread = ParseThreadStatus(*FindMachine(EM_X86_64), BytesOf(status));
  ASSERT_TRUE(thread.has_value());
  EXPECT_EQ(thread->thread, 77);
  EXPECT_EQ(thread->signal.number, SIGSEGV);
  EXPECT_FALSE(thread->signal.address.has_value());
  EXPECT_EQ(Value(*thread, "rax"), 1u);
  EXPECT_EQ(Value(*thread, "r15"), 3u);
  EXPECT_EQ(thread->instruction(), 4u);
  EXPECT_EQ(thread->stack(), 5u);
  EXPECT_EQ(thread->thread_pointer(), 7u);
  EXPECT_EQ(ThreadStatus(*thread), BytesOf(status));
}

#endif

TEST(ThreadRegistersTest, Arm64) {
  const Machine& machine = *FindMachine(EM_AARCH64);
  ThreadRegisters thread{.machine = &machine, .set = std::string(34 * 8, '\0')};
  for (uint64_t i = 0; i < 34; ++i) memcpy(&thread.set[8 * i], &i, sizeof(i));
  EXPECT_EQ(thread.stack(), 31u);
  EXPECT_EQ(thread.instruction(), 32u);
  EXPECT_EQ(Value(thread, "x30"), 30u);
  EXPECT_EQ(ThreadStatus(thread).size(), 392u);
}

TEST(ThreadRegistersTest, ShortNotesAreNone) {
  for (const uint16_t elf : {EM_X86_64, EM_386, EM_AARCH64}) {
    const Machine& machine = *FindMachine(elf);
    for (size_t bytes = 0; bytes < machine.bytes(); ++bytes) {
      EXPECT_FALSE(ParseThreadStatus(machine, std::string(bytes, '\1')).has_value());
    }
  }
}

}  // namespace
}  // namespace cli
