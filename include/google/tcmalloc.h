/* SPDX-License-Identifier: BSD-3-Clause */
/* The name that the header had before gperftools 2.0. It gives no warning: programs with -Werror
 * include it. */
#ifndef GOOGLE_TCMALLOC_H_
#define GOOGLE_TCMALLOC_H_

#include <gperftools/tcmalloc.h>

#endif /* GOOGLE_TCMALLOC_H_ */
