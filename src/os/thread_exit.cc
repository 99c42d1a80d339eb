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

}  // namespace

bool ThreadExitHook::Init(void (*on_exit)(void*)) {
  have_key = pthread_key_create(&key, on_exit) == 0;
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
