// SPDX-License-Identifier: BSD-3-Clause
// Call frame information: the tables in .eh_frame that compilers write for every program and
// library, so that exceptions can pass through functions without a frame pointer. This library uses
// them only to compute the registers of a caller's frame from those of the callee's frame.
//
// This header declares the result, a rule; the search for one; and the interpreter of the tables'
// instructions. instruments/unwind/call_frame_entries.h parses the records.
//
// Pure functions of the bytes of one object in memory. They read nothing outside the given range,
// whatever it contains, and write nothing but the result. Called by: CallFrameCache. Thread safety:
// any thread; no lock. Cost: a binary search and a few hundred instructions; less than a KiB of
// stack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address_range.h"

namespace tcmalloc {

// True if a walk on this machine steps from each frame to its caller by rules (x86, 64 and 32
// bits).
extern const bool kHasCallFrameInfo;
// True if a walk steps by a rule at least from a frame that a signal interrupted (x86; aarch64). On
// aarch64, frame pointers lead through all frames of calls: compilers keep them in each function
// that calls others. A function that calls none has no frame, so its frame pointer is that of its
// caller, and leads to the caller's caller. Only a rule tells whether the function at an
// instruction has saved the link register. Without it one could only guess: after a call has
// returned, the link register has an address inside the function itself.
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

// Call frame instructions of DWARF (DW_CFA_...): the numbers of registers, a reader of the
// encodings, and the interpreter.

// CallFrameReader: a cursor over a part of an object's call frame information. It decodes the
// number formats of DWARF: fixed sizes, LEB128, and encoded pointers (DW_EH_PE_...).
//
// It never reads outside its limits. A read beyond the end returns 0 and makes the reader fail; a
// failed reader is at its end and stays failed.
//
// Thread safety: as for an int; it only reads the object. Cost: a comparison and a load per field.
class CallFrameReader {
 public:
  // Encodings of pointers: the low four bits are the format of the number, the next three its base.
  enum Encoding : uint8_t {
    kAbsolute = 0x00,
    kUnsigned2 = 0x02,
    kUnsigned4 = 0x03,
    kUnsigned8 = 0x04,
    kSigned2 = 0x0a,
    kSigned4 = 0x0b,
    kSigned8 = 0x0c,
    kFormatMask = 0x0f,
    kRelativeToField = 0x10,
    kRelativeToHeader = 0x30,
  };

  // Reads from `at` to the end of the object. Fails if `at` is outside the object.
  CallFrameReader(const CallFrameObject& object, uintptr_t at) : at_(at), end_(object.end) {
    if (at < object.begin || at > object.end) Fail();
  }

  bool failed() const { return failed_; }
  bool at_end() const { return at_ >= end_; }
  uintptr_t at() const { return at_; }
  void Fail() {
    failed_ = true;
    at_ = end_;
  }
  // Moves the end to `bytes` from the current position. Fails if the end is closer.
  void Limit(uint64_t bytes) {
    if (bytes > end_ - at_) return Fail();
    end_ = at_ + static_cast<uintptr_t>(bytes);
  }
  void Skip(uint64_t bytes) {
    if (bytes > end_ - at_) return Fail();
    at_ += static_cast<uintptr_t>(bytes);
  }

  template <typename T>
  T Take() {
    if (sizeof(T) > end_ - at_) {
      Fail();
      return 0;
    }
    const T value = LoadRaw<T>(at_);
    at_ += sizeof(T);
    return value;
  }

  // Reads an unsigned LEB128 number. Bits beyond 64 are dropped.
  uint64_t Unsigned() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint8_t byte = Take<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }

  // Reads a signed LEB128 number. Bits beyond 64 are dropped.
  int64_t Signed() {
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
      byte = Take<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      shift += 7;
    } while (byte >= 0x80);
    if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
    return static_cast<int64_t>(value);
  }

  // Reads the number of an encoded pointer, without its base. Fails for formats that Encoding
  // lacks.
  uint64_t Value(uint8_t encoding) {
    switch (encoding & kFormatMask) {
      case kAbsolute:
        return Take<uintptr_t>();
      case kUnsigned2:
        return Take<uint16_t>();
      case kUnsigned4:
        return Take<uint32_t>();
      case kUnsigned8:
        return Take<uint64_t>();
      case kSigned2:
        return static_cast<uint64_t>(int64_t{Take<int16_t>()});
      case kSigned4:
        return static_cast<uint64_t>(int64_t{Take<int32_t>()});
      case kSigned8:
        return static_cast<uint64_t>(Take<int64_t>());
      default:
        Fail();
        return 0;
    }
  }

  // Reads an encoded pointer, which is absolute, or relative to the address of the field. Fails for
  // other bases.
  uintptr_t Pointer(uint8_t encoding) {
    const uintptr_t here = at_;
    const uintptr_t value = static_cast<uintptr_t>(Value(encoding));
    switch (encoding & ~kFormatMask) {
      case 0:
        return value;
      case kRelativeToField:
        return here + value;
      default:
        Fail();
        return 0;
    }
  }

 private:
  uintptr_t at_;
  uintptr_t end_;
  bool failed_ = false;
};

// The interpreter of DWARF call frame instructions (DW_CFA_...): finds the row of a function's
// unwind table for a given instruction.
//
// A pure function of the bytes of two programs. It reads nothing outside them, whatever they
// contain. Thread safety: any thread; writes nothing but the result. Cost: some ten instructions
// per call frame instruction; half a KiB of stack.

// A row of the unwind table, from which the canonical frame address and the caller's registers can
// be computed. Only the return address, the frame pointer and RBX (EBX) have columns.
struct CallFrameRow {
  struct Saved {
    uint8_t place = CallFrameRule::kUnchanged;
    // True if the value exists, but at a place that a rule cannot express.
    bool lost = false;
    bool undefined = false;
    // In bytes.
    int64_t offset = 0;
  };
  enum Column : uint8_t { kReturn, kFrame, kBase, kColumns };

  // A CallFrameRule::Address.
  uint8_t address = CallFrameRule::kUnknown;
  // DWARF's number of the register.
  uint64_t address_register = 0;
  int64_t address_offset = 0;
  Saved saved[kColumns];
};

// The inputs of the instructions besides their own bytes.
struct CallFrameContext {
  uint64_t code_alignment = 1;
  int64_t data_alignment = 1;
  // The encoding of addresses (CallFrameReader::Encoding).
  uint8_t encoding = CallFrameReader::kAbsolute;
  // The start of the function, and the instruction whose row is wanted.
  uintptr_t function = 0;
  uintptr_t pc = 0;
};

// Runs `initial`, the program of the common entry, then `own`, that of the function, up to `pc`.
// False when an instruction is unknown or cut off, states are nested too deeply, or a state is
// restored that was never saved.
bool RunCallFramePrograms(const CallFrameContext& context, CallFrameReader initial,
                          CallFrameReader own, CallFrameRow* row);

// DWARF's numbers for the registers of this machine that a stack walk follows: the stack pointer,
// the frame pointer, RBX (EBX) or the link register, and the column of the return address. On
// machines without kKnown the numbers are those of aarch64 and are never used. With
// kReturnInRegister a call leaves the return address in kBase, the link register, and a function
// without calls never saves it.
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
