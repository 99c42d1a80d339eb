// SPDX-License-Identifier: BSD-3-Clause
// A table of functions for a program without .eh_frame_hdr. `gcc -static` does not let the linker
// write one; .eh_frame is in the program nevertheless, but no data in memory has its address. So
// this code finds .eh_frame by its form, and makes the sorted table of its descriptions.
//
// Called by: CallFrameCache, once for the program, in any context. It takes no lock and needs
// little stack. Cost of the search: it reads the program's constants up to .eh_frame, a nanosecond
// for each word, and some 50 ns for each function. The table has 8 bytes for each function.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/unwind/call_frame_info.h"

namespace tcmalloc {

// A part of .eh_frame_hdr's table, with offsets from the object's first byte.
struct CallFrameTableEntry {
  int32_t function;
  int32_t description;
};

struct MadeCallFrameTable {
  uint32_t count = 0;
  uint32_t capacity = 0;
  CallFrameTableEntry* entries() { return reinterpret_cast<CallFrameTableEntry*>(this + 1); }
  static size_t Bytes(size_t count) {
    return sizeof(MadeCallFrameTable) + count * sizeof(CallFrameTableEntry);
  }
};

// .eh_frame in an object.
struct CallFrameSection {
  uintptr_t begin = 0;  // 0 if it was not found
  uintptr_t end = 0;
  size_t descriptions = 0;
};

// Finds .eh_frame in a part of the object, [begin, end). It is recognised by a description of the
// function that contains `code`, which no similar memory has.
CallFrameSection FindCallFrameSection(const CallFrameObject& object, uintptr_t begin, uintptr_t end,
                                      uintptr_t code);

// Writes the table of the section. Requires: room for an entry for each of its descriptions.
void FillCallFrameTable(const CallFrameObject& object, const CallFrameSection& section,
                        MadeCallFrameTable* table);

}  // namespace tcmalloc
