// SPDX-License-Identifier: BSD-3-Clause
// One step of a stack walk: from the registers of a frame to those of its caller, by a rule of the
// call frame information or by the frame pointer.
//
// Pure functions of the registers and the memory of the stack. They read only memory that
// StackMemory allows, and write only the registers. They are inline, since a trace makes some
// twenty steps. Thread safety: any thread; signal handlers. Cost: some 50 instructions.
#pragma once

#include <cstdint>

#include "instruments/unwind/call_frame_info.h"
#include "instruments/unwind/frame_registers.h"
#include "instruments/unwind/stack_memory.h"

namespace tcmalloc {

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
