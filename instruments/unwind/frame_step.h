// SPDX-License-Identifier: BSD-3-Clause
// One step of a stack walk: the registers that it follows, the memory that it may read, and the
// step from a frame to its caller's.
#pragma once

#include <ucontext.h>

#include <cstdint>

#include "base/address_range.h"
#include "base/units.h"
#include "instruments/unwind/call_frame_info.h"
#include "os/stack_trace.h"

namespace tcmalloc {

// FrameRegisters: the registers that a stack walk follows, and functions that read them from the
// running function, or from the context of a signal handler.
//
// Each function supports x86 (64 and 32 bits) and aarch64. Thread safety: any thread; signal
// handlers. Cost: a few instructions.
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

// StackMemory decides which memory a stack walk may read. It asks the OS about addresses that may
// be unmapped, and remembers the last readable page.
//
// It never writes. Not thread-safe; one per walk. Cost: nothing for an address in the page of the
// previous frame, otherwise a system call per page.
class StackMemory {
 public:
  // Rules are not trusted from here on: the walk has found a frame that a signal interrupted,
  // perhaps because the stack is corrupt. All frames before that belong to calls that were made.
  void DistrustRules() { trusts_rules_ = false; }

  // Returns how many bytes from the stack pointer on are certainly readable: the rest of the page
  // in which the previous frame ends. That page was read, or is the walker's own. Later pages may
  // be unreadable: the outermost frame may end at the end of memory, and still have a rule for its
  // caller's frame.
  uintptr_t Trusted(uintptr_t sp) const {
    return trusts_rules_ ? ((sp - 1) | (kPage - 1)) + 1 - sp : 0;
  }
  // Whether all memory from the stack pointer to the word at `address` is readable, and both are in
  // the same page or in adjacent ones.
  bool ReachesTo(uintptr_t sp, uintptr_t address) {
    if (((address ^ (sp - 1)) & ~(kPage - 1)) == 0) return true;
    return address - sp < kPage && IsReadableSlow(sp, address & ~(kStackWord - 1));
  }
  bool trusts_rules() const { return trusts_rules_; }

  // Loads the word at `address`. False when it is unreadable, or not within a frame's size above
  // `sp`. `trusted` is the number of bytes from `sp` on that need no system call.
  bool Load(uintptr_t sp, uintptr_t trusted, uintptr_t address, uintptr_t* value) {
    if (address - sp >= trusted && !IsReadableSlow(sp, address)) return false;
    *value = LoadRaw<uintptr_t>(address);
    return true;
  }

 private:
  // The longest expected frame. An address farther from the stack pointer is not read.
  static constexpr uintptr_t kMaxFrameBytes = 64_MiB;
  // The smallest page of any machine.
  static constexpr uintptr_t kPage = 4096;

  bool IsReadableSlow(uintptr_t sp, uintptr_t address) {
    if (address - sp >= kMaxFrameBytes || address % kStackWord != 0) return false;
    const uintptr_t page = address & ~(kPage - 1);
    if (page == readable_page_) return true;
    if (!IsReadable(address)) return false;
    readable_page_ = page;
    return true;
  }

  bool trusts_rules_ = true;
  // The initial value is no page's address.
  uintptr_t readable_page_ = 1;
};

// One step of a stack walk: from the registers of a frame to those of its caller, by a rule of the
// call frame information or by the frame pointer.
//
// Pure functions of the registers and the memory of the stack. They read only memory that
// StackMemory allows, and write only the registers. They are inline, since a trace makes some
// twenty steps. Thread safety: any thread; signal handlers. Cost: some 50 instructions.
enum class FrameStep : uint8_t {
  kCalled,       // the caller called
  kInterrupted,  // the caller was interrupted by a signal
  kNoRule,       // the rule is unknown
  kEnd,          // there is no caller, or its frame cannot be read
};

// Steps to the caller's frame by a rule.
inline FrameStep StepByRule(const CallFrameRule rule, FrameRegisters* registers,
                            StackMemory* memory) {
  if (rule.address == CallFrameRule::kUnknown) return FrameStep::kNoRule;
  if (rule.address == CallFrameRule::kOutermost) return FrameStep::kEnd;
  const uintptr_t sp = registers->sp();
  uintptr_t address = registers->values[rule.address_register] +
                      static_cast<uintptr_t>(static_cast<intptr_t>(rule.address_offset));
  const uintptr_t trusted = memory->Trusted(sp);
  if (rule.address == CallFrameRule::kMemory) {
    if (!memory->Load(sp, trusted, address, &address)) return FrameStep::kEnd;
  }
  // A caller's frame is at a higher address, unless it was interrupted: it may then be on another
  // stack. A function that left the return address in its register need not have a frame.
  const bool in_register = rule.return_place == CallFrameRule::kUnchanged;
  if (!rule.interrupted && address < sp + !in_register) return FrameStep::kEnd;
  FrameRegisters caller = *registers;
  const uintptr_t places[] = {0, address, sp, registers->fp()};
  const auto load = [&](uint64_t place, int64_t words, uintptr_t* value) {
    if (place == CallFrameRule::kUnchanged) return true;
    const uintptr_t offset = static_cast<uintptr_t>(static_cast<intptr_t>(words)) * kStackWord;
    const uintptr_t at = places[place] + offset;
    // A value below the stack pointer has already been popped into its register. Compilers do not
    // describe these pops at the end of a function.
    if (at < sp && value != &caller.pc) return true;
    return memory->Load(sp, trusted, at, value);
  };
  if (!load(rule.return_place, rule.return_words, &caller.pc) ||
      !load(rule.frame_place, rule.frame_words, &caller.values[CallFrameRule::kFramePointer]) ||
      !load(rule.base_place, rule.base_words, &caller.values[CallFrameRule::kBase])) {
    return FrameStep::kEnd;
  }
  if (in_register) caller.pc = registers->values[CallFrameRule::kBase];
  caller.pc = WithoutSignature(caller.pc);
  caller.values[CallFrameRule::kStackPointer] = address;
  *registers = caller;
  return rule.interrupted ? FrameStep::kInterrupted : FrameStep::kCalled;
}

// Steps to the caller's frame by the frame pointer. It points to the saved frame pointer of the
// caller, and the return address is above that.
inline FrameStep StepByFramePointer(FrameRegisters* registers, StackMemory* memory) {
  const uintptr_t fp = registers->fp();
  const uintptr_t sp = registers->sp();
  FrameRegisters caller;
  if (fp < sp || !memory->Load(sp, 0, fp, &caller.values[CallFrameRule::kFramePointer]) ||
      !memory->Load(sp, 0, fp + kStackWord, &caller.pc)) {
    return FrameStep::kEnd;
  }
  caller.pc = WithoutSignature(caller.pc);
  caller.values[CallFrameRule::kStackPointer] = fp + 2 * kStackWord;
  *registers = caller;
  return FrameStep::kCalled;
}

}  // namespace tcmalloc
