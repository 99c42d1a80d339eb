// SPDX-License-Identifier: BSD-3-Clause
// The report of a mistake with a guarded object: what the program did, to which object, with the
// stacks of the access, of the free and of the allocation. The fault handler writes it, too, so its
// memory comes from mmap, it takes no lock, and it calls no function of the C library that may take
// one. Needs 16 KiB of stack.
#pragma once

#include "base/text_writer.h"
#include "instruments/guard/guard_error.h"
#include "instruments/guard/guard_pool.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {

// The first line: "tcmalloc: use after free: write at 0x7f12, byte 2 of ...\n".
void WriteGuardErrorLine(const GuardPool& pool, const GuardError& error, TextWriter* out);

// Writes the whole report to stderr, with the names of functions. `vm` provides the memory for
// names.
void WriteGuardReport(const GuardPool& pool, const GuardError& error, VirtualMemory& vm);

}  // namespace tcmalloc
