// SPDX-License-Identifier: BSD-3-Clause
// pthread_create, interposed before the C library's own: before it creates the program's thread, it
// may start the background thread (heap/background_thread.h explains why at this moment).
//
// This file is in the shared libraries only: a statically linked program has one such function, the
// C library's. It does not notice threads of thrd_create, and those that the C library creates for
// itself.
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

// The first call of Next looks it up, at the latest when the library is loaded. Relaxed, since
// every lookup finds the same function.
constinit std::atomic<CreateThreadFunction> next_create{nullptr};

CreateThreadFunction Next() {
  CreateThreadFunction next = next_create.load(std::memory_order_relaxed);
  if (next == nullptr) {
    next = reinterpret_cast<CreateThreadFunction>(dlsym(RTLD_NEXT, "pthread_create"));
    next_create.store(next, std::memory_order_relaxed);
  }
  return next;
}

// A lookup takes the dynamic linker's lock, so it happens at load: later another thread may hold
// that lock and wait for the caller. The attribute names the section into which GCC, but not clang,
// puts each constructor: this file is linked last, and the OS also makes the pages around an
// executed page resident.
__attribute__((constructor, section(".text.startup"))) void FindAtLoad() { Next(); }

}  // namespace

// The function has another name here, because the headers of C libraries declare pthread_create in
// different ways.
extern "C" TC_EXPORT int CreateThread(pthread_t* thread, const pthread_attr_t* attributes,
                                      Start start, void* argument) __asm__("pthread_create");

int CreateThread(pthread_t* thread, const pthread_attr_t* attributes, Start start, void* argument) {
  const CreateThreadFunction next = Next();
  if (next == nullptr) return ENOSYS;
  if (tcmalloc::IsOwnThreadStart(start)) return next(thread, attributes, start, argument);
  tcmalloc::OnThreadStarting(next);
  int error = next(thread, attributes, start, argument);
  if (error != 0 && tcmalloc::OnThreadNotStarted()) {
    // The limit on threads may have had room for only one, the background thread.
    error = next(thread, attributes, start, argument);
    if (error == 0) tcmalloc::OnThreadStarting(nullptr);
  }
  return error;
}
