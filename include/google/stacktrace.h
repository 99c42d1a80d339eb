/* SPDX-License-Identifier: BSD-3-Clause */
/* The name that the header had before gperftools 2.0. It gives no warning: programs with -Werror
 * include it. */
#ifndef GOOGLE_STACKTRACE_H_
#define GOOGLE_STACKTRACE_H_

#include <gperftools/stacktrace.h>

#endif /* GOOGLE_STACKTRACE_H_ */
