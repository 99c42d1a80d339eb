/* SPDX-License-Identifier: BSD-3-Clause */
/* The name that the header had before gperftools 2.0. It gives no warning: programs with -Werror
 * include it. */
#ifndef GOOGLE_HEAP_CHECKER_H_
#define GOOGLE_HEAP_CHECKER_H_

#include <gperftools/heap-checker.h>

#endif /* GOOGLE_HEAP_CHECKER_H_ */
