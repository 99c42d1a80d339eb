// SPDX-License-Identifier: BSD-3-Clause
// pthread_create, interposed before the C library's own: before it creates the program's thread, it
// may start the background thread (process/background_thread.h explains why at this moment).
//
// The program's thread begins in one of the functions Begin of this file, so that the library
// notices the thread's end even if it never allocates. Each start function of the program has a
// Begin of its own, which jumps to it with the thread's argument. So nothing is allocated to pass
// on the start function, a backtrace has no frame of Begin, and the C library's record of the
// thread has the program's argument, in which the leak checker finds pointers. Programs have few
// start functions, since a language's runtime has one for all its threads. Threads of start
// functions beyond kMostStarts are not counted.
//
// This file is in the shared libraries only: a statically linked program has one such function, the
// C library's. Threads of thrd_create, and those that the C library creates for itself, are not
// counted either.
//
// The other parts of this file, InitSlotEarly and __register_atfork, have their explanations below.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include "base/compiler.h"
#include "os/threads.h"
#include "process/background_thread.h"
#include "process/current_thread.h"
#include "process/fork.h"

namespace {

using tcmalloc::CreateThreadFunction;
using Start = void* (*)(void*);
using Handler = void (*)();

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

// glibc zeroes the first thread's thread-local storage, relocates the program and its libraries,
// and only then gives it its initial values. While it relocates the program, it calls the resolvers
// of the program's IFUNC symbols, which may allocate. So this library has such a symbol, too. Its
// resolver runs at the end of the library's own relocation, before those of modules that need the
// library. It makes the slot usable, without a cache, which the initial values would lose.
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
void DoNothing() {}
extern "C" {
Handler InitSlotEarly() {
  tcmalloc::current_slot.bins.store(const_cast<tcmalloc::Bins*>(&tcmalloc::kEmptyBins),
                                    std::memory_order_relaxed);
  tcmalloc::current_slot.phase = tcmalloc::ThreadSlot::Phase::kFinished;
  return &DoNothing;
}
__attribute__((ifunc("InitSlotEarly"), visibility("hidden"))) void UseResolver();
}
#else
void UseResolver() {}
#endif

// A lookup takes the dynamic linker's lock, so it happens at load: later another thread may hold
// that lock and wait for the caller. The attribute names the section into which GCC, but not clang,
// puts each constructor: this file is linked last, and the OS also makes the pages around an
// executed page resident.
__attribute__((constructor, section(".text.startup"))) void FindAtLoad() {
  UseResolver();
  Next();
}

constexpr size_t kMostStarts = 32;
// The start functions that have a Begin, from the first place on; null after them. A place is
// written once. Relaxed: the creation of the thread passes it on.
constinit std::array<std::atomic<Start>, kMostStarts> starts{};

template <size_t kPlace>
TC_ENDS_IN_TAIL_CALL void* Begin(void* argument) {
  tcmalloc::NoteThreadBegins();
  TC_TAIL_CALL starts[kPlace].load(std::memory_order_relaxed)(argument);
}

template <size_t... kPlace>
constexpr std::array<Start, kMostStarts> AllBegins(std::index_sequence<kPlace...>) {
  return {&Begin<kPlace>...};
}
constexpr std::array<Start, kMostStarts> kBegins =
    AllBegins(std::make_index_sequence<kMostStarts>());

// The function in which a thread of `start` begins; null if there is none for it.
Start BeginOf(Start start) {
  for (size_t i = 0; i < kMostStarts; ++i) {
    Start there = starts[i].load(std::memory_order_relaxed);
    if (there == nullptr &&
        starts[i].compare_exchange_strong(there, start, std::memory_order_relaxed)) {
      return kBegins[i];
    }
    if (there == start) return kBegins[i];
  }
  return nullptr;
}

using Register = int (*)(Handler prepare, Handler parent, Handler child, void* dso);

Register FindNext() {
  // The function is looked up each time: registering is rare, and constructors may run in any
  // order.
  return reinterpret_cast<Register>(dlsym(RTLD_NEXT, "__register_atfork"));
}

}  // namespace

// The function has another name here, because the headers of C libraries declare pthread_create in
// different ways.
extern "C" TC_EXPORT int CreateThread(pthread_t* thread, const pthread_attr_t* attributes,
                                      Start start, void* argument) __asm__("pthread_create");

int CreateThread(pthread_t* thread, const pthread_attr_t* attributes, Start start, void* argument) {
  const CreateThreadFunction next = Next();
  if (next == nullptr) return ENOSYS;
  tcmalloc::WatchForStrayChildren();
  const Start begin = tcmalloc::IsOwnThreadStart(start) ? nullptr : BeginOf(start);
  if (begin == nullptr) return next(thread, attributes, start, argument);
  tcmalloc::OnThreadStarting(next);
  int error = next(thread, attributes, begin, argument);
  if (error != 0 && tcmalloc::OnThreadNotStarted()) {
    // The limit on threads may have had room for only one, the background thread.
    tcmalloc::OnThreadStarting(nullptr);
    error = next(thread, attributes, begin, argument);
    if (error != 0) tcmalloc::OnThreadNotStarted();
  }
  return error;
}

// Replaces the function that pthread_atfork calls, to register our fork handlers before all others.
// Prepare handlers run in reverse order of registration, so ours runs last: once it has taken the
// allocator's locks, no other handler runs that could wait for a thread which waits for these
// locks. In the parent and the child our handlers run first.
//
// A library that was loaded earlier may be bound to the C library's function. Its prepare handler
// then runs after ours: it may allocate, but must not wait for a thread that allocates.
extern "C" TC_EXPORT TC_RUNS_AT_START int __register_atfork(Handler prepare, Handler parent,
                                                            Handler child, void* dso) {
  // The first call of InstallForkHandlers registers our handlers by this same function, in which
  // InstallForkHandlers then does nothing.
  tcmalloc::InstallForkHandlers();
  const Register next = FindNext();
  return next == nullptr ? ENOSYS : next(prepare, parent, child, dso);
}
