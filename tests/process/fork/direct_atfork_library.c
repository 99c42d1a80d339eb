// SPDX-License-Identifier: BSD-3-Clause
//
// A library for fork_flush.c. It is preloaded after the allocator, so that the next definition of a
// function that it finds is the C library's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

typedef int (*Register)(void (*)(void), void (*)(void), void (*)(void), void*);

// Calls pthread_atfork without the allocator. Returns 0.
__attribute__((visibility("default"))) int RegisterBehind(void (*prepare)(void),
                                                          void (*parent)(void),
                                                          void (*child)(void)) {
  const Register next = (Register)dlsym(RTLD_NEXT, "__register_atfork");
  return next == NULL ? -1 : next(prepare, parent, child, NULL);
}
