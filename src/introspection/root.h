// SPDX-License-Identifier: BSD-3-Clause
// The introspection root: what a program outside of this process, or a reader of its core dump,
// needs to understand the heap without headers and without debug information.
// docs/introspection.md describes the format.
//
// Finding it. The dynamic symbol tcmalloc_introspection; or an ELF note of the name "TCMalloc" in
// the section .note.tcmalloc, whose contents are the distance of the root from them; or a search of
// writable memory for the magic, followed by a matching `self`.
//
// Everything that it refers to lies in writable memory: a core dump contains that and may lack
// read-only data. The table of size classes needs no copy, since each CentralFreeList has its
// class's row.
//
// Cost. Nothing at run time; at most 8 KiB of initialised data, which no allocation touches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// The part of the table that only the full library has; the minimal library's is empty.
struct SampleLayout {
  const char* text;
  size_t bytes;
  // The address of a pointer to the SampleTable, which is null until there is one.
  const void* table;
};
extern SampleLayout sample_layout;

// The format is fixed: all members up to `self` have the same size on each machine, the others are
// pointers or counts of the process's size. A later version only adds members at the end.
struct IntrospectionRoot {
  static constexpr uint32_t kFormat = 1;

  char magic[8];
  uint32_t format;
  uint16_t pointer_bytes;
  uint16_t root_bytes;
  char version[16];  // of the library; ends with zeroes
  const IntrospectionRoot* self;
  // See LayoutText.
  const char* layout;
  size_t layout_bytes;
  const SampleLayout* samples;
  const void* heap;         // a Heap
  const void* heap_exists;  // a byte that is not 0 once the heap exists
  const void* page_map;     // a PageMap
};

}  // namespace tcmalloc
