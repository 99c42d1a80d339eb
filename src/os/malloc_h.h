// SPDX-License-Identifier: BSD-3-Clause
// <malloc.h>, and the structures and parameters of glibc that other C libraries lack.
#pragma once
#pragma GCC system_header  // for structures and functions that share their names

#include <malloc.h>
#include <stddef.h>

#ifndef __GLIBC__

extern "C" {

struct mallinfo {
  int arena;
  int ordblks;
  int smblks;
  int hblks;
  int hblkhd;
  int usmblks;
  int fsmblks;
  int uordblks;
  int fordblks;
  int keepcost;
};

struct mallinfo2 {
  size_t arena;
  size_t ordblks;
  size_t smblks;
  size_t hblks;
  size_t hblkhd;
  size_t usmblks;
  size_t fsmblks;
  size_t uordblks;
  size_t fordblks;
  size_t keepcost;
};

struct mallinfo mallinfo() noexcept;
struct mallinfo2 mallinfo2() noexcept;

}  // extern "C"

// Parameters of mallopt.
#define M_TRIM_THRESHOLD (-1)
#define M_MMAP_MAX (-4)

#endif
