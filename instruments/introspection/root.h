// SPDX-License-Identifier: BSD-3-Clause
// The introspection root: the data by which a program outside of this process, or a reader of its
// core dump, understands the heap without headers and debug information.
// docs/introspection.md describes the format.
//
// Finding it. A reader looks up the dynamic symbol tcmalloc_introspection; or reads the ELF note
// with the name "TCMalloc" in the section .note.tcmalloc, whose contents are the distance of the
// root from these contents; or searches writable memory for the magic and a matching `self`.
//
// All data that the root refers to lies in writable memory, since a core dump contains that and may
// lack read-only data. The table of size classes needs no copy, since each CentralFreeList has its
// class's row.
//
// Cost. The root takes no time at run time, and at most 11 KiB of initialised data, which no
// allocation touches.
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
  // The memory that the program registered with the leak checker, and the objects that it ignores.
  const void* registered_roots;   // a RegisteredRoots
  const void* ignored_addresses;  // an IgnoredAddresses
  // The records of all objects.
  const void* record_session;  // a RecordSession
};
extern SampleLayout sample_layout;

// The part of the table that only the debug libraries have: the header that they keep before each
// object. It is empty in the other libraries.
struct DebugLayout {
  // It changes when the checksum or the red zones of DebugObject are computed in another way.
  static constexpr uint32_t kFormat = 1;

  const char* text;
  size_t bytes;
};
extern DebugLayout debug_layout;

// The format is fixed: all members up to `self` have the same size on every machine; the others are
// pointers or counts, whose size depends on the process. A later version only adds members at the
// end.
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
  const char* abort_line;   // see os/log.h
  const DebugLayout* debug;
};

}  // namespace tcmalloc
