// SPDX-License-Identifier: BSD-3-Clause
// The two variables of the process that the fast paths of malloc and free read. They are apart from
// the rest of the heap, so that the entry points include little.
#pragma once

#include "page_heap/page_map.h"
#include "thread_cache/thread_slot.h"

namespace tcmalloc {

// The calling thread's slot.
extern constinit thread_local ThreadSlot current_slot __attribute__((tls_model("initial-exec")));

// The process's page map: a constant address in zero-filled memory, because the fast path of free()
// looks into it before it is known whether there is a heap.
extern TC_AT_PAGE PageMap global_page_map;

}  // namespace tcmalloc
