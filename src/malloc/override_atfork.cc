// SPDX-License-Identifier: BSD-3-Clause
// The function behind pthread_atfork, seen before the C library's own: it registers our handlers
// before the first of anyone else's. Prepare handlers run in the reverse order of registration, so
// ours then runs last, when no other handler will wait for a lock that some thread inside the
// allocator needs to let go of; and in parent and child ours run first.
//
// In the shared libraries only: a statically linked program has one such function, the C library's.
// Where a library was bound to the C library's function all the same (it was loaded before us), its
// prepare handler runs behind ours; it may allocate, but must not wait for a thread that allocates.
#include <dlfcn.h>
#include <errno.h>

#include <atomic>

#include "base/compiler.h"
#include "runtime/fork.h"

namespace {

using Handler = void (*)();
using Register = int (*)(Handler prepare, Handler parent, Handler child, void* dso);

Register FindNext() {
  // Found again each time: registering is rare, and constructors may run in any order.
  return reinterpret_cast<Register>(dlsym(RTLD_NEXT, "__register_atfork"));
}

}  // namespace

extern "C" TC_EXPORT int __register_atfork(Handler prepare, Handler parent, Handler child,
                                           void* dso) {
  // Registers through this very function the first time, which then finds it done.
  tcmalloc::InstallForkHandlers();
  const Register next = FindNext();
  return next == nullptr ? ENOSYS : next(prepare, parent, child, dso);
}
