// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_exit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tcmalloc {
namespace {

// Written once by Init, before any thread is armed.
constinit pthread_key_t key = 0;
constinit bool have_key = false;

// The kernel's first real-time signal; the C library's SIGRTMIN is above those that it uses itself.
constexpr int kFirstInternalSignal = 32;

// A thread ends in rounds (PTHREAD_DESTRUCTOR_ITERATIONS): each calls the destructors of the keys
// that have a value at that moment, in the order of the keys' numbers. A destructor may arm the
// hook as the first thing that its thread ever does with the allocator, also in the last round, and
// is heard then only if the hook's key comes behind its own.
//
// So the hook takes the last key of those that glibc keeps in the thread itself. A key behind it is
// no danger: glibc callocs the memory for the first of those values that a thread sets. That is
// served by this allocator and arms the hook, before the thread ends or, in the last round, in a
// destructor of one of the keys before ours.
//
// glibc gives out the lowest number that is free. The keys below that are created on the way are
// deleted again. Other C libraries give out the numbers in other orders: there the hook takes what
// it is given.
#if defined(__GLIBC__)
constexpr pthread_key_t kWantedKey = 31;
#else
constexpr pthread_key_t kWantedKey = 0;
#endif

}  // namespace

bool ThreadExitHook::Init(void (*on_exit)(void*)) {
  pthread_key_t on_the_way[kWantedKey + 1];
  size_t n = 0;
  while (pthread_key_create(&key, on_exit) == 0) {
    have_key = true;
    // Another thread may have taken that one meanwhile.
    if (key >= kWantedKey) break;
    on_the_way[n++] = key;
  }
  // When there were no more: the highest that was to be had.
  if (n > 0 && key == on_the_way[n - 1]) --n;
  while (n > 0) pthread_key_delete(on_the_way[--n]);
  return have_key;
}

bool ThreadExitHook::Arm(void* value) {
  if (!have_key) return false;
  const int saved_errno = errno;
  const bool armed = pthread_setspecific(key, value) == 0;
  errno = saved_errno;
  return armed;
}

bool ThreadExitHook::MayHavePassed() {
  const int saved_errno = errno;
  // The system call: what the C library's function says of its own signals is its own business.
  uint64_t blocked = 0;
  const bool known =
      syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &blocked, sizeof(blocked)) == 0;
  errno = saved_errno;
  return !known || (blocked >> (kFirstInternalSignal - 1) & 1) != 0;
}

}  // namespace tcmalloc
