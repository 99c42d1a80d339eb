// SPDX-License-Identifier: BSD-3-Clause
// Call frame information: what compilers put into .eh_frame of every program and library, so that
// exceptions can be thrown through functions that have no frame pointer. Here it is read for one
// purpose: from the registers in one frame of a stack those in its caller's.
//
// Pure functions over the bytes of one object, as it lies in memory: they read nothing outside the
// range that they are given, whatever is in it, and write nothing. Called by: CallFrameCache.
// Locks: none. Cost: a binary search and a few hundred instructions; less than a KiB of stack.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// Whether the machine's registers are known here (x86, 64 and 32 bits).
extern const bool kHasCallFrameInfo;

// How to get from a frame to its caller's. Only registers on which compilers put the frame's
// address are followed: the stack pointer, the frame pointer, and RBX (EBX), which the dynamic
// linker uses. In 64 bits, so that an entry of a cache holds it.
struct CallFrameRule {
  // The canonical frame address, which is the stack pointer in the caller.
  enum Address : uint64_t {
    kUnknown,    // what is there cannot be followed
    kOutermost,  // there is no caller
    kRegister,   // a register and an offset
    kMemory,     // the word at a register and an offset
  };
  enum Register : uint64_t { kStackPointer, kFramePointer, kBase };
  static constexpr size_t kNumRegisters = 3;
  // Where what a register was in the caller is: a number of words from something.
  enum Place : uint64_t { kUnchanged, kFromAddress, kFromStackPointer, kFromFramePointer };

  uint64_t address : 2 = kUnknown;
  uint64_t address_register : 2 = kStackPointer;
  uint64_t interrupted : 1 = 0;  // the caller was interrupted by a signal, it did not call
  uint64_t return_place : 2 = kFromAddress;
  uint64_t frame_place : 2 = kUnchanged;
  uint64_t base_place : 2 = kUnchanged;
  int64_t return_words : 9 = -1;
  int64_t frame_words : 9 = 0;
  int64_t base_words : 9 = 0;
  int64_t address_offset : 26 = 0;
};
static_assert(sizeof(CallFrameRule) == sizeof(uint64_t));

// An object in memory: the range that may be read, and its .eh_frame_hdr in it.
struct CallFrameObject {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  uintptr_t header = 0;
};

struct CallFrameResult {
  CallFrameRule rule;
  // The entry of the object's table that leads to it.
  uint32_t index = 0;
};

// The rule for the instruction at `pc`; false where the object has none, or one that makes no
// sense. A rule that cannot be followed is kUnknown.
bool FindCallFrameRule(const CallFrameObject& object, uintptr_t pc, CallFrameResult* result);

// Stands for all bytes that FindCallFrameRule would make of `index` the rule of: while it is the
// same, the rule is the same. Never 0, which is for an object that has no such entry.
uint64_t CallFrameFingerprint(const CallFrameObject& object, uint32_t index);

}  // namespace tcmalloc
