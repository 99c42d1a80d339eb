// SPDX-License-Identifier: BSD-3-Clause
// The largest objects of the library in zero-filled memory. They are apart from others since they
// are linked last (src/CMakeLists.txt): a process touches few pages of them.
#include "process/fast_path_data.h"
#include "process/heap.h"

namespace tcmalloc {

constinit PageMap global_page_map;

alignas(Heap) constinit char global_heap_storage[sizeof(Heap)] = {};

}  // namespace tcmalloc
