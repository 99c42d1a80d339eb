// SPDX-License-Identifier: BSD-3-Clause
// Reports of mistakes with guarded objects: which mistake a fault is, the text of the report, and
// the response to a fault.
#pragma once

#include <cstdint>

#include "base/text_writer.h"
#include "instruments/guard/guard_pool.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {

// The report of a mistake with a guarded object: what the program did, to which object, with the
// stacks of the access, of the free and of the allocation. The fault handler writes it, too, so its
// memory comes from mmap, it takes no lock, and it calls no function of the C library that may take
// one. Needs 16 KiB of stack.

// The first line: "tcmalloc: use after free: write at 0x7f12, byte 2 of ...\n".
void WriteGuardErrorLine(const GuardPool& pool, const GuardError& error, TextWriter* out);

// Writes the whole report to stderr, with the names of functions. `vm` provides the memory for
// names.
void WriteGuardReport(const GuardPool& pool, const GuardError& error, VirtualMemory& vm);

// Reports faulting accesses to guarded objects from within the process, if TCMALLOC_GUARDED_REPORT
// requests that: handles SIGSEGV and SIGBUS from now on (instruments/guard/fault_handler.h). False
// when the OS refuses.
bool ReportGuardFaults();

}  // namespace tcmalloc
