// SPDX-License-Identifier: BSD-3-Clause
// Adapters between gperftools' SysAllocator and the SystemAllocator of include/tcmalloc/tcmalloc.h,
// in both directions.
#pragma once

class SysAllocator;

namespace tcmalloc {

// Returns the program's allocator if SetSysAllocator set it, else an adapter for the heap's own
// source of memory.
SysAllocator* GetSysAllocator();

// Null selects the library's own allocator. Calls that have begun continue with the former one.
void SetSysAllocator(SysAllocator* allocator);

}  // namespace tcmalloc
