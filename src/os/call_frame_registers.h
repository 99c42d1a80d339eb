// SPDX-License-Identifier: BSD-3-Clause
// The numbers that DWARF gives to the registers of this machine, and which of them a walk over a
// stack follows: the stack pointer, the frame pointer, RBX (EBX) and the return address.
//
// Constants and pure functions. Thread safety: any thread. Cost: a few comparisons.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/call_frame_info.h"

namespace tcmalloc {

// DWARF's numbers, that of the return address's column included. kKnown: the numbers are those of
// this machine. Where they are not known, the numbers are those of aarch64 and never used.
struct DwarfRegister {
#if defined(__x86_64__)
  static constexpr uint64_t kStackPointer = 7;
  static constexpr uint64_t kFramePointer = 6;
  static constexpr uint64_t kBase = 3;
  static constexpr uint64_t kReturn = 16;
  static constexpr bool kKnown = true;
#elif defined(__i386__)
  static constexpr uint64_t kStackPointer = 4;
  static constexpr uint64_t kFramePointer = 5;
  static constexpr uint64_t kBase = 3;
  static constexpr uint64_t kReturn = 8;
  static constexpr bool kKnown = true;
#else
  static constexpr uint64_t kStackPointer = 31;
  static constexpr uint64_t kFramePointer = 29;
  static constexpr uint64_t kBase = 19;
  static constexpr uint64_t kReturn = 30;
  static constexpr bool kKnown = false;
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
