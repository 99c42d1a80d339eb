// SPDX-License-Identifier: BSD-3-Clause
// Runs a function between the constructors of the program's global objects and main.
//
// No interface of the C library offers this. The first instructions of a program call the first
// function of the C library, through a word of the program's address table, and pass it the address
// of main. That word is changed to a function of this file, which passes on another main.
#pragma once

namespace tcmalloc {

// Calls `function` once, before main. False when that is impossible: the program is statically
// linked, of an unknown kind, or contains the library. If main has begun already, the function is
// never called. Requires: called at most once, by a constructor or later.
bool CallBeforeMain(void (*function)());

}  // namespace tcmalloc
