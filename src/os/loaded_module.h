// SPDX-License-Identifier: BSD-3-Clause
// The module (program or shared library) that contains this code.
#pragma once

namespace tcmalloc {

// Keeps the module in memory until the process ends, whatever dlclose the program calls: threads
// that used the allocator run its code when they end, and its objects may outlive its users. Does
// nothing in a program, which is never unloaded, and in a module that was linked with `-z
// nodelete`, as the shared libraries are; the cost then is a walk over the dynamic section, without
// a system call. Called from the constructor of the library. May call malloc, which must work.
void KeepModuleLoaded();

}  // namespace tcmalloc
