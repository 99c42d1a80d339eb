// SPDX-License-Identifier: BSD-3-Clause
// gperftools' SysAllocator on top of the one of include/tcmalloc/tcmalloc.h, and the other way
// round.
#pragma once

class SysAllocator;

namespace tcmalloc {

// The program's, if it has set one through here; else one that gives what the heap grows by.
SysAllocator* GetSysAllocator();

// Null for the library's own. Calls that have begun go on with the former one.
void SetSysAllocator(SysAllocator* allocator);

}  // namespace tcmalloc
