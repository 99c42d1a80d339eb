// SPDX-License-Identifier: BSD-3-Clause
// What a stack walk needs of .eh_frame_hdr and .eh_frame: the sorted table of functions, which is
// made for a program without one, the entries, and a fingerprint of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address_range.h"
#include "instruments/unwind/call_frame_info.h"

namespace tcmalloc {

// A table of functions for a program without .eh_frame_hdr. `gcc -static` does not let the linker
// write one; .eh_frame is in the program nevertheless, but no data in memory has its address. So
// this code finds .eh_frame by its form, and makes the sorted table of its descriptions.
//
// Called by: CallFrameCache, once for the program, in any context. It takes no lock and needs
// little stack. Cost of the search: it reads the program's constants up to .eh_frame, a nanosecond
// for each word, and some 50 ns for each function. The table has 8 bytes for each function.

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

// Parsers for the parts of .eh_frame_hdr and .eh_frame that a stack walk needs: the sorted table of
// functions, the common information entry (CIE), the frame description entry (FDE).
//
// Pure functions of an object's bytes. They read nothing outside the object, whatever it contains.
// Thread safety: any thread; the functions write no shared data. Cost: a lookup is a binary search;
// the two entries take some hundred instructions.

// .eh_frame_hdr: the object's functions in address order, in the one form that all linkers write.
struct CallFrameTable {
  // The version, then three encodings: of the offset of .eh_frame, of the number of entries, of the
  // entries.
  static constexpr uint8_t kForm[] = {
      1, CallFrameReader::kRelativeToField | CallFrameReader::kSigned4, CallFrameReader::kUnsigned4,
      CallFrameReader::kRelativeToHeader | CallFrameReader::kSigned4};
  static constexpr uintptr_t kHeaderBytes = 12;
  // An entry consists of two 32-bit offsets from the base, of the function and of its description.
  static constexpr uintptr_t kEntryBytes = sizeof(CallFrameTableEntry);

  // False if the object has no such table, or the table exceeds the object.
  bool Read(const CallFrameObject& object) {
    if (object.has_made_table) {
      auto* const made = reinterpret_cast<MadeCallFrameTable*>(object.header);
      base = object.begin;
      entries = reinterpret_cast<uintptr_t>(made->entries());
      count = made->count;
      return true;
    }
    if (object.header < object.begin || object.header > object.end ||
        object.end - object.header < kHeaderBytes ||
        LoadRaw<uint32_t>(object.header) != __builtin_bit_cast(uint32_t, kForm)) {
      return false;
    }
    base = object.header;
    count = LoadRaw<uint32_t>(object.header + 8);
    entries = object.header + kHeaderBytes;
    return count <= (object.end - entries) / kEntryBytes;
  }

  // The number of entries whose function begins at or before `pc`. Only the last of them may
  // contain it.
  uint32_t CountUpTo(uintptr_t pc) const {
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (Function(middle) <= pc) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  uintptr_t Function(uint32_t i) const {
    return base + static_cast<uintptr_t>(intptr_t{LoadRaw<int32_t>(entries + i * kEntryBytes)});
  }
  uintptr_t Description(uint32_t i) const {
    return base + static_cast<uintptr_t>(intptr_t{LoadRaw<int32_t>(entries + i * kEntryBytes + 4)});
  }

  // The base of the offsets: the header, or the object.
  uintptr_t base = 0;
  uintptr_t entries = 0;
  uint32_t count = 0;
};

// A common information entry, shared by several functions.
struct CommonFrameEntry {
  // False where there is no entry at `at`, or an unsupported one.
  bool Read(const CallFrameObject& object, uintptr_t at);

  uint64_t code_alignment = 1;
  int64_t data_alignment = 1;
  // The encoding of the addresses in descriptions.
  uint8_t encoding = CallFrameReader::kAbsolute;
  // True if descriptions have augmentation data, which begin with their length.
  bool has_data = false;
  // True if a signal enters the functions, not a call.
  bool interrupted = false;
  // The instructions to run before those of the function.
  CallFrameReader program{CallFrameObject{}, 0};
};

// A frame description entry, for one function.
struct FrameDescription {
  // False where there is no entry at `at`, or an unsupported one.
  bool Read(const CallFrameObject& object, uintptr_t at);

  CommonFrameEntry common;
  uintptr_t function = 0;
  uint64_t function_bytes = 0;
  CallFrameReader program{CallFrameObject{}, 0};
};

// A fingerprint of the bytes that a call frame rule is computed from. CallFrameCache uses it to
// verify a rule whose library may have been unloaded and replaced by another one.
//
// A pure function of an object's bytes; it reads nothing outside the object. Thread safety: any
// thread. Cost: a few instructions per 8 bytes of the two entries, about a hundred in all.

// A hash of all bytes that FindCallFrameRule reads for entry `index`: equal fingerprints mean equal
// rules. 0 if, and only if, the object has no such entry.
uint64_t CallFrameFingerprint(const CallFrameObject& object, uint32_t index);

}  // namespace tcmalloc
