/* SPDX-License-Identifier: BSD-3-Clause */
/* The name that the header had before gperftools 2.0. It gives no warning: programs with -Werror
 * include it. */
#ifndef GOOGLE_MALLOC_EXTENSION_C_H_
#define GOOGLE_MALLOC_EXTENSION_C_H_

#include <gperftools/malloc_extension_c.h>

#endif /* GOOGLE_MALLOC_EXTENSION_C_H_ */
