// SPDX-License-Identifier: BSD-3-Clause
// HeapDamage: the damaged objects of a target that runs on a debug library.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heap/debug_objects.h"
#include "heap/objects.h"

namespace cli {

// The object whose memory ends where damaged memory begins: the program may have written past its
// end.
struct ObjectBefore {
  DebugHeader header;
  std::vector<Address> allocated_at;
};

struct DamagedObject {
  DebugHeader header;
  Damage damage;
  std::vector<Address> allocated_at;  // return addresses, innermost first; empty if unknown
  std::vector<Address> freed_at;
  std::optional<ObjectBefore> before;  // of a damaged header
};

// Memory in use in which no header can be recognized. Either a thread is about to write the header,
// or the header was overwritten.
struct HeaderlessMemory {
  Object raw;
  std::vector<char> contents;  // at the place of a header
  std::optional<ObjectBefore> before;
};

struct HeapDamage {
  // Further objects are only counted.
  static constexpr size_t kMostDamaged = 100;
  static constexpr size_t kMostHeaderless = 1000;

  uint64_t live = 0;
  uint64_t freed = 0;
  uint64_t changing = 0;    // not checked, since a thread was allocating or freeing them
  uint64_t closed = 0;      // freed and protected by a page fence: no code can write to them
  uint64_t unreadable = 0;  // the image lacks their memory
  uint64_t damaged = 0;
  uint64_t headerless = 0;
  std::vector<DamagedObject> damaged_objects;
  std::vector<HeaderlessMemory> headerless_memory;
};

HeapDamage FindDamage(const HeapObjects& heap);

// Compares two readings of a process that ran between them. Headerless memory of `second` that was
// the same in `first` was overwritten, since no thread takes that long to write a header. Turns it
// into damaged objects.
void MarkOverwritten(const HeapDamage& first, HeapDamage* second);

}  // namespace cli
