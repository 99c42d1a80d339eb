// SPDX-License-Identifier: BSD-3-Clause
// FrameRegisters: the registers that a stack walk follows, and functions that read them from the
// running function, or from the context of a signal handler.
//
// Each function supports x86 (64 and 32 bits) and aarch64. Thread safety: any thread; signal
// handlers. Cost: a few instructions.
#pragma once

#include <ucontext.h>

#include <cstdint>

#include "base/raw_memory.h"
#include "instruments/unwind/call_frame_info.h"

namespace tcmalloc {

inline constexpr uintptr_t kStackWord = sizeof(void*);

// The known registers of a frame.
struct FrameRegisters {
  uintptr_t pc = 0;
  // In the order of CallFrameRule::Register.
  uintptr_t values[CallFrameRule::kNumRegisters] = {};

  uintptr_t sp() const { return values[CallFrameRule::kStackPointer]; }
  uintptr_t fp() const { return values[CallFrameRule::kFramePointer]; }
};

// Removes the signature from a return address (aarch64).
inline uintptr_t WithoutSignature(uintptr_t address) {
#if defined(__aarch64__)
  register uintptr_t link __asm__("x30") = address;
  __asm__("hint #7" : "+r"(link));  // xpaclri; does nothing on processors without signatures
  return link;
#else
  return address;
#endif
}

// The registers at the instruction that a signal interrupted.
#if defined(__x86_64__)
inline FrameRegisters FrameRegistersOf(const ucontext_t& context) {
  const auto& registers = context.uc_mcontext.gregs;
  return {static_cast<uintptr_t>(registers[REG_RIP]),
          {static_cast<uintptr_t>(registers[REG_RSP]), static_cast<uintptr_t>(registers[REG_RBP]),
           static_cast<uintptr_t>(registers[REG_RBX])}};
}
#elif defined(__i386__)
inline FrameRegisters FrameRegistersOf(const ucontext_t& context) {
  const auto& registers = context.uc_mcontext.gregs;
  return {static_cast<uintptr_t>(registers[REG_EIP]),
          {static_cast<uintptr_t>(registers[REG_ESP]), static_cast<uintptr_t>(registers[REG_EBP]),
           static_cast<uintptr_t>(registers[REG_EBX])}};
}
#elif defined(__aarch64__)
inline FrameRegisters FrameRegistersOf(const ucontext_t& context) {
  return {static_cast<uintptr_t>(context.uc_mcontext.pc),
          {static_cast<uintptr_t>(context.uc_mcontext.sp),
           static_cast<uintptr_t>(context.uc_mcontext.regs[29]),
           static_cast<uintptr_t>(context.uc_mcontext.regs[30])}};
}
#else
inline FrameRegisters FrameRegistersOf(const ucontext_t&) { return {}; }
#endif

// Reads the registers of the function into which this is inlined, which makes that function use a
// frame pointer. True when they are those of its caller's frame instead.
__attribute__((always_inline)) inline bool CaptureFrameRegisters(FrameRegisters* registers) {
  const uintptr_t frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
#if defined(__x86_64__)
  uintptr_t sp;
  uintptr_t base;
  __asm__ volatile(
      "leaq 0(%%rip), %0\n\t"
      "movq %%rsp, %1\n\t"
      "movq %%rbx, %2"
      : "=&r"(registers->pc), "=&r"(sp), "=&r"(base));
  registers->values[CallFrameRule::kStackPointer] = sp;
  registers->values[CallFrameRule::kFramePointer] = frame;
  registers->values[CallFrameRule::kBase] = base;
  return false;
#else
  registers->pc = WithoutSignature(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
  registers->values[CallFrameRule::kStackPointer] = frame + 2 * kStackWord;
  registers->values[CallFrameRule::kFramePointer] = LoadRaw<uintptr_t>(frame);
  return true;
#endif
}

}  // namespace tcmalloc
