// SPDX-License-Identifier: BSD-3-Clause
// The moment between the constructors of the program's global objects and main.
//
// Nobody tells a library of it. The C library's first function for a program gets the address of
// main from the program's own first instructions, which call it through a word of the program's
// table of addresses. That word is made to point to a function here, which passes on another main.
#pragma once

namespace tcmalloc {

// Has `function` called there, once. False when that cannot be done: the program is statically
// linked, of an unknown kind, or the library is a part of it. Where main has begun already, nothing
// is called. Requires: called by a constructor, or later; once.
bool CallBeforeMain(void (*function)());

}  // namespace tcmalloc
