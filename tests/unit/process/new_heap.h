// SPDX-License-Identifier: BSD-3-Clause
// A second Heap in the process, so that its figures start at zero. Like every heap, it is never
// destroyed.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

#include "base/config.h"
#include "page_heap/page_map.h"
#include "process/heap.h"

namespace tcmalloc {

inline Heap& NewHeap() {
  const auto map = [](size_t bytes) {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TC_CHECK(memory != MAP_FAILED);
    return memory;
  };
  PageMap& page_map = *static_cast<PageMap*>(map(sizeof(PageMap)));
  return *new (map(sizeof(Heap))) Heap(page_map);
}

}  // namespace tcmalloc
