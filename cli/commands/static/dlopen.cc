// SPDX-License-Identifier: BSD-3-Clause
//
// dlopen of the statically linked command: it loads nothing. A library that is loaded into a static
// program brings a second C library of the system it runs on, which works only if both have the
// same version. The only library that the command and libdw load is libdebuginfod, and they work
// without it.
#include <dlfcn.h>

extern "C" void* dlopen(const char*, int) noexcept { return nullptr; }
