// SPDX-License-Identifier: BSD-3-Clause
// The check of the whole program at its end, which HEAPCHECK asks for (docs/leak-checker.md).
//
//                 records from    checks             what is leaked
//   minimal       main            before destructors unreachable and allocated since main
//   normal        the start       before destructors unreachable
//   strict        the start       after destructors  unreachable
//   draconian     the start       after destructors  everything that was not freed
//   as-is         the start       as set             as set (HEAP_CHECK_...)
//   local         the start       only where the program asks (tools/leak/part_check.h)
//
// "Destructors" are those of the program's global objects, and the functions that it has registered
// with atexit. Where main begins is not always known (tools/leak/os/main_start.h); then it counts
// as beginning when the library's constructors run. A forked child does not check at its end.
//
// A check that finds leaks, or could not be made, writes to stderr and, at the end, makes the
// process's exit status 1. One at the end that finds nothing writes a line, and leaves the status.
// Thread safety: any thread, except for the start and the end of the program. Cost: a check for
// leaks (tools/leak/check.h).
#pragma once

#include "tools/leak/leak_messages.h"

namespace tcmalloc {

// Whether HEAPCHECK asks for a check and it can be made. If it cannot, a message on stderr said so
// when the program started.
bool LeakCheckerIsActive();
// Whether it asks for the whole program.
bool ProgramCheckIsActive();

// Checks the whole program now; any number of times. True when nothing is leaked, and where no
// check is active.
bool CheckProgram();
// Cancels the check at the end.
void CancelProgramCheck();
// Of the last check of the whole program.
LeakFigures LastProgramFigures();

}  // namespace tcmalloc
