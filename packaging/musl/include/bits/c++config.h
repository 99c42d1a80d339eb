// SPDX-License-Identifier: BSD-3-Clause
//
// g++'s configuration of its C++ headers, for a C library for which they were not made. They must
// be freestanding: they need nothing of a C++ library and little of a C library.
#pragma once
#include <features.h>
#ifndef __GLIBC_PREREQ  // used by g++'s own file about the system
#define __GLIBC_PREREQ(major, minor) 0
#endif
#include_next <bits/c++config.h>
// Not every version of g++ respects -ffreestanding here.
#undef _GLIBCXX_HOSTED
#define _GLIBCXX_HOSTED 0
#undef _GLIBCXX_HAS_GTHREADS
