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

  // `reader` reads the program's memory; null for plain loads.
  Marker(const ObjectIndex& index, CheckMemory& memory, const Options& options,
         const MemoryReader* reader = nullptr)
      : Base(index, memory, options, reader, memory.hardware_page_size()) {}

  // Called before all other functions. False when the OS has no memory.
  [[nodiscard]] bool Prepare() {
    memory().Open();
    return Base::Prepare();
  }
};

}  // namespace tcmalloc
