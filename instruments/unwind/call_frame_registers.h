// SPDX-License-Identifier: BSD-3-Clause
// DWARF's numbers for the registers of this machine, and the registers that a stack walk follows:
// the stack pointer, the frame pointer, the return address, and RBX (EBX) or the link register.
//
// Constants and pure functions. Thread safety: any thread. Cost: a few comparisons.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/unwind/call_frame_info.h"

namespace tcmalloc {

// DWARF's numbers, including the column of the return address. On machines without kKnown the
// numbers are those of aarch64 and are never used. With kReturnInRegister a call leaves the return
// address in kBase, the link register, and a function without calls never saves it.
struct DwarfRegister {
#if defined(__x86_64__)
  static constexpr uint64_t kStackPointer = 7;
  static constexpr uint64_t kFramePointer = 6;
  static constexpr uint64_t kBase = 3;
  static constexpr uint64_t kReturn = 16;
  static constexpr bool kKnown = true;
  static constexpr bool kReturnInRegister = false;
#elif defined(__i386__)
  static constexpr uint64_t kStackPointer = 4;
  static constexpr uint64_t kFramePointer = 5;
  static constexpr uint64_t kBase = 3;
  static constexpr uint64_t kReturn = 8;
  static constexpr bool kKnown = true;
  static constexpr bool kReturnInRegister = false;
#else
  static constexpr uint64_t kStackPointer = 31;
  static constexpr uint64_t kFramePointer = 29;
  static constexpr uint64_t kBase = 30;
  static constexpr uint64_t kReturn = 30;
#if defined(__aarch64__)
  static constexpr bool kKnown = true;
#else
  static constexpr bool kKnown = false;
#endif
  static constexpr bool kReturnInRegister = true;
#endif
};

// Converts DWARF's number to that of a rule. False for a register that the walk does not follow.
inline bool FollowedRegister(uint64_t number, CallFrameRule::Register* result) {
  if (number == DwarfRegister::kStackPointer) return *result = CallFrameRule::kStackPointer, true;
  if (number == DwarfRegister::kFramePointer) return *result = CallFrameRule::kFramePointer, true;
  if (number == DwarfRegister::kBase) return *result = CallFrameRule::kBase, true;
  return false;
}

}  // namespace tcmalloc
