// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_exit.h"

#include <errno.h>
#include <pthread.h>

namespace tcmalloc {
namespace {

// Written once by Init, before any thread is armed.
constinit pthread_key_t key = 0;
constinit bool have_key = false;

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

}  // namespace tcmalloc
