// SPDX-License-Identifier: BSD-3-Clause
// Call frame information: the tables in .eh_frame that compilers write for every program and
// library, so that exceptions can pass through functions without a frame pointer. This library uses
// them only to compute the registers of a caller's frame from those of the callee's frame.
//
// This header declares the result, a rule, and the search for one. Parts:
// instruments/unwind/call_frame_entries.h parses the records,
// instruments/unwind/call_frame_program.h interprets their instructions.
//
// Pure functions of the bytes of one object in memory. They read nothing outside the given range,
// whatever it contains, and write nothing but the result. Called by: CallFrameCache. Thread safety:
// any thread; no lock. Cost: a binary search and a few hundred instructions; less than a KiB of
// stack.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// Walks step by rules on this machine (x86, 64 and 32 bits).
extern const bool kHasCallFrameInfo;
// Walks step by a rule from a frame that a signal interrupted (x86; aarch64). On aarch64, frame
// pointers lead through all frames of calls: compilers keep them in each function that calls
// others. A function that calls none has no frame, so its frame pointer is that of its caller, and
// leads to the caller's caller. Only a rule tells whether the function at an instruction has saved
// the link register. Without it one could only guess: after a call has returned, the link register
// has an address inside the function itself.
extern const bool kHasInterruptedFrameInfo;

// How to get from a frame to its caller's. A rule covers only the registers on which compilers base
// frame addresses: the stack pointer, the frame pointer, and RBX (EBX), which the dynamic linker
// uses; on aarch64 the link register instead. It has 64 bits, so that it fits into a cache entry.
struct CallFrameRule {
  // The canonical frame address, which is the caller's stack pointer.
  enum Address : uint64_t {
    kUnknown,    // no rule, or one that cannot be expressed
    kOutermost,  // there is no caller
    kRegister,   // a register and an offset
    kMemory,     // the word at a register and an offset
  };
  enum Register : uint64_t { kStackPointer, kFramePointer, kBase };
  static constexpr size_t kNumRegisters = 3;
  // Where the caller's value of a register is: in the register, or a number of words from one of
  // three addresses. A return address that is kUnchanged is in the link register.
  enum Place : uint64_t { kUnchanged, kFromAddress, kFromStackPointer, kFromFramePointer };

  uint64_t address : 2 = kUnknown;
  uint64_t address_register : 2 = kStackPointer;
  uint64_t interrupted : 1 = 0;  // a signal interrupted the caller; it made no call
  uint64_t return_place : 2 = kFromAddress;
  uint64_t frame_place : 2 = kUnchanged;
  uint64_t base_place : 2 = kUnchanged;
  int64_t return_words : 9 = -1;
  int64_t frame_words : 9 = 0;
  int64_t base_words : 9 = 0;
  int64_t address_offset : 26 = 0;

  // True if the rule has the most frequent form: a call whose return address is the word below the
  // canonical frame address, with the other saved registers below it.
  bool IsSimple() const;
};
static_assert(sizeof(CallFrameRule) == sizeof(uint64_t));

inline bool CallFrameRule::IsSimple() const {
  constexpr CallFrameRule kBits{.address = 3,
                                .address_register = 0,
                                .interrupted = 1,
                                .return_place = 3,
                                .frame_place = 2,
                                .base_place = 2};
  constexpr CallFrameRule kForm{.address = kRegister, .return_words = -1};
  // The mask is not constexpr, because clang cannot convert bit fields in constant expressions; it
  // folds them nevertheless.
  const uint64_t mask = __builtin_bit_cast(uint64_t, kBits);
  return ((__builtin_bit_cast(uint64_t, *this) ^ __builtin_bit_cast(uint64_t, kForm)) & mask) == 0;
}

// A program or library in memory: the readable range, and the .eh_frame_hdr in it. With
// `has_made_table`, `header` is the address of a MadeCallFrameTable, which is outside of the range.
struct CallFrameObject {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  uintptr_t header = 0;
  bool has_made_table = false;
};

struct CallFrameResult {
  CallFrameRule rule;
  // The function's entry in the object's table.
  uint32_t index = 0;
};

// Finds the rule for the instruction at `pc`. False if the object has no rule, or a malformed one.
// A well-formed rule that cannot be expressed is kUnknown.
bool FindCallFrameRule(const CallFrameObject& object, uintptr_t pc, CallFrameResult* result);

}  // namespace tcmalloc
