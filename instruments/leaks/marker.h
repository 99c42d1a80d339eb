// SPDX-License-Identifier: BSD-3-Clause
// Marker: the marker of formats/marker/marker.h for the objects and the memory of this process.
//
// Thread safety and cost are as described there.
#pragma once

#include <cstddef>

#include "formats/marker/marker.h"
#include "instruments/leaks/check_memory.h"
#include "instruments/leaks/object_index.h"
#include "instruments/leaks/program_memory.h"

namespace tcmalloc {

extern template class MarkerOf<HeapGeometry, ProgramMemory>;

class Marker : public MarkerOf<HeapGeometry, ProgramMemory> {
 public:
  using Base = MarkerOf<HeapGeometry, ProgramMemory>;

  // The options of the base class, and `reader`.
  struct Options {
    size_t max_pointer_offset = Base::Options().max_pointer_offset;
    size_t pointer_source_alignment = Base::Options().pointer_source_alignment;
    size_t ring_objects = Base::Options().ring_objects;
    // Reads the program's memory; null for plain loads.
    const MemoryReader* reader = nullptr;
  };

  Marker(const ObjectIndex& index, CheckMemory& memory, const Options& options)
      : Base(index, memory,
             {.max_pointer_offset = options.max_pointer_offset,
              .pointer_source_alignment = options.pointer_source_alignment,
              .ring_objects = options.ring_objects},
             options.reader, memory.hardware_page_size()) {}

  // Called before all other functions. False when the OS has no memory.
  [[nodiscard]] bool Prepare() {
    memory().Open();
    return Base::Prepare();
  }
};

}  // namespace tcmalloc
