// SPDX-License-Identifier: BSD-3-Clause
// Replaces the function that pthread_atfork calls, to register our fork handlers before all others.
// Prepare handlers run in reverse order of registration, so ours runs last: once it has taken the
// allocator's locks, no other handler runs that could wait for a thread which waits for these
// locks. In the parent and the child our handlers run first.
//
// This file is in the shared libraries only: a statically linked program has one function of this
// name, the C library's. A library that was loaded earlier may be bound to the C library's
// function. Its prepare handler then runs after ours: it may allocate, but must not wait for a
// thread that allocates.
#include <dlfcn.h>
#include <errno.h>

#include <atomic>

#include "base/compiler.h"
#include "process/fork.h"

namespace {

using Handler = void (*)();
using Register = int (*)(Handler prepare, Handler parent, Handler child, void* dso);

Register FindNext() {
  // The function is looked up each time: registering is rare, and constructors may run in any
  // order.
  return reinterpret_cast<Register>(dlsym(RTLD_NEXT, "__register_atfork"));
}

}  // namespace

extern "C" TC_EXPORT TC_RUNS_AT_START int __register_atfork(Handler prepare, Handler parent,
                                                            Handler child, void* dso) {
  // The first call of InstallForkHandlers registers our handlers by this same function, in which
  // InstallForkHandlers then does nothing.
  tcmalloc::InstallForkHandlers();
  const Register next = FindNext();
  return next == nullptr ? ENOSYS : next(prepare, parent, child, dso);
}
