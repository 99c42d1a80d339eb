// SPDX-License-Identifier: BSD-3-Clause
// Finds the objects of the process's heap as a leak check does. The test itself allocates with the
// C library's malloc.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "instruments/leaks/heap_objects.h"
#include "instruments/leaks/process_search.h"
#include "malloc/tc_names.h"
#include "os/memory/virtual_memory.h"
#include "process/fork.h"
#include "process/heap.h"

namespace tcmalloc {

inline uintptr_t AddressOf(const void* p) { return reinterpret_cast<uintptr_t>(p); }

// Builds the index when it is constructed. Requires: no other thread uses the heap then.
struct Look {
  Look() : memory(vm), index(memory) {
    HoldHeap();
    const bool built = index.Build(ExistingHeap());
    ReleaseHeap();
    EXPECT_TRUE(built);
  }

  // Returns the starts and sizes of the objects.
  std::map<uintptr_t, size_t> Objects() const {
    std::map<uintptr_t, size_t> objects;
    size_t numbers = 0;
    index.ForEach([&](const LiveObject& object) {
      EXPECT_TRUE(objects.empty() || objects.rbegin()->first < object.start);
      EXPECT_LE(numbers, object.number);
      numbers = object.number + 1;
      objects[object.start] = object.bytes;
    });
    EXPECT_LE(numbers, index.num_numbers());
    return objects;
  }

  SystemVirtualMemory vm;
  CheckMemory memory;
  ObjectIndex index;
};

}  // namespace tcmalloc
