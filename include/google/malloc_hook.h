/* SPDX-License-Identifier: BSD-3-Clause */
/* The name that the header had before gperftools 2.0. It gives no warning: programs with -Werror
 * include it. */
#ifndef GOOGLE_MALLOC_HOOK_H_
#define GOOGLE_MALLOC_HOOK_H_

#include <gperftools/malloc_hook.h>

#endif /* GOOGLE_MALLOC_HOOK_H_ */
