// SPDX-License-Identifier: BSD-3-Clause
// pthread_create, interposed before the C library's own: before the program's thread is created
// the background thread may be started (heap/background_thread.h says why there).
//
// In the shared libraries only: a statically linked program has one such function, the C library's.
// Threads of thrd_create, and those that the C library creates for itself, are not seen.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <atomic>

#include "base/compiler.h"
#include "heap/background_thread.h"
#include "os/detached_thread.h"

namespace {

using tcmalloc::CreateThreadFunction;
using Start = void* (*)(void*);

// Looked up when the library is loaded, or by an earlier call. Every lookup finds the same function
// (relaxed).
constinit std::atomic<CreateThreadFunction> next_create{nullptr};

CreateThreadFunction Next() {
  CreateThreadFunction next = next_create.load(std::memory_order_relaxed);
  if (next == nullptr) {
    next = reinterpret_cast<CreateThreadFunction>(dlsym(RTLD_NEXT, "pthread_create"));
    next_create.store(next, std::memory_order_relaxed);
  }
  return next;
}

// A lookup takes the dynamic linker's lock. Later another thread may hold it and wait for the
// caller.
__attribute__((constructor)) void FindAtLoad() { Next(); }

}  // namespace

// By another name here: the C library's headers declare the function, not all in the same way.
extern "C" TC_EXPORT int CreateThread(pthread_t* thread, const pthread_attr_t* attributes,
                                      Start start, void* argument) __asm__("pthread_create");

int CreateThread(pthread_t* thread, const pthread_attr_t* attributes, Start start, void* argument) {
  const CreateThreadFunction next = Next();
  if (next == nullptr) return ENOSYS;
  if (tcmalloc::IsOwnThreadStart(start)) return next(thread, attributes, start, argument);
  tcmalloc::OnThreadStarting(next);
  int error = next(thread, attributes, start, argument);
  if (error != 0 && tcmalloc::OnThreadNotStarted()) {
    // The limit on threads may have had room for one.
    error = next(thread, attributes, start, argument);
    if (error == 0) tcmalloc::OnThreadStarting(nullptr);
  }
  return error;
}
