// SPDX-License-Identifier: BSD-3-Clause
// Registers functions that run around every fork of the process, as pthread_atfork.
#pragma once

#include <pthread.h>

#ifdef __GLIBC__
// The function that the C library's pthread_atfork calls, with the object that the handlers belong
// to.
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                 void* object);
extern "C" void* __dso_handle;
#endif

namespace tcmalloc {

// As pthread_atfork. glibc links its own pthread_atfork into the end of each library, after
// functions that small programs never run; a call of it would make up to 64 KiB of these resident
// in each program. Thread safety: any.
inline void RegisterForkHandlers(void (*prepare)(), void (*parent)(), void (*child)()) {
#ifdef __GLIBC__
  __register_atfork(prepare, parent, child, &__dso_handle);
#else
  pthread_atfork(prepare, parent, child);
#endif
}

}  // namespace tcmalloc
