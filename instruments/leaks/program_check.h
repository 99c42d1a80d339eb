// SPDX-License-Identifier: BSD-3-Clause
// The check of the whole program at its end, which HEAPCHECK requests (docs/leak-checker.md).
//
//                 records from    checks             what is leaked
//   minimal       main            before destructors unreachable and allocated since main
//   normal        the start       before destructors unreachable
//   strict        the start       after destructors  unreachable
//   draconian     the start       after destructors  everything that was not freed
//   as-is         the start       as set             as set (HEAP_CHECK_...)
//   local         the start       only where the program asks (instruments/leaks/part_check.h)
//
// "Destructors" are those of the program's global objects, and the functions that it has registered
// with atexit. The beginning of main cannot always be detected (instruments/leaks/main_start.h);
// then main counts as begun when the library's constructors run. A forked child does not check at
// its end.
//
// A check that finds leaks, or could not be made, writes to stderr and, at the end, makes the
// process's exit status 1. A check at the end that finds no leaks writes a line, and does not
// change the status. Thread safety: any thread, except for the start and the end of the program.
// Cost: a check for leaks (instruments/leaks/check.h).
#pragma once

#include "instruments/leaks/leak_messages.h"

namespace tcmalloc {

// Whether HEAPCHECK requests a check that can be made. If it cannot, a message was written to
// stderr when the program started.
bool LeakCheckerIsActive();
// Whether HEAPCHECK requests a check of the whole program.
bool ProgramCheckIsActive();

// Checks the whole program now. It may be called several times. True when nothing is leaked, or no
// check is active.
bool CheckProgram();
// Cancels the check at the end.
void CancelProgramCheck();
// The figures of the last check of the whole program.
LeakFigures LastProgramFigures();

}  // namespace tcmalloc
