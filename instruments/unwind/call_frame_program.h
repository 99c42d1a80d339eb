// SPDX-License-Identifier: BSD-3-Clause
// The interpreter of DWARF call frame instructions (DW_CFA_...): finds the row of a function's
// unwind table for a given instruction.
//
// A pure function of the bytes of two programs. It reads nothing outside them, whatever they
// contain. Thread safety: any thread; writes nothing but the result. Cost: some ten instructions
// per call frame instruction; half a KiB of stack.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/unwind/call_frame_info.h"
#include "instruments/unwind/call_frame_reader.h"

namespace tcmalloc {

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

}  // namespace tcmalloc
