// SPDX-License-Identifier: BSD-3-Clause
// DWARF's numbers for the registers of this machine, and the registers that a stack walk follows:
// the stack pointer, the frame pointer, RBX (EBX) and the return address.
//
// Constants and pure functions. Thread safety: any thread. Cost: a few comparisons.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/stack/call_frame_info.h"

namespace tcmalloc {

// DWARF's numbers, including the column of the return address. On machines without kKnown the
// numbers are those of aarch64 and are never used.
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
