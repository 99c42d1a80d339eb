// SPDX-License-Identifier: BSD-3-Clause
//
// dlopen of the statically linked command: it loads nothing. A library that is loaded into a static
// program brings a second C library of the system it runs on, which works only if both have the
// same version. The command and libdw load libdebuginfod only, and do without where there is none.
#include <dlfcn.h>

extern "C" void* dlopen(const char*, int) noexcept { return nullptr; }
