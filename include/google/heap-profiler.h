/* SPDX-License-Identifier: BSD-3-Clause */
/* The name that the header had before gperftools 2.0. It gives no warning: programs with -Werror
 * include it. */
#ifndef GOOGLE_HEAP_PROFILER_H_
#define GOOGLE_HEAP_PROFILER_H_

#include <gperftools/heap-profiler.h>

#endif /* GOOGLE_HEAP_PROFILER_H_ */
