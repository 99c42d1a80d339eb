// SPDX-License-Identifier: BSD-3-Clause
#include "os/detached_thread.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cstddef>

namespace tcmalloc {
namespace {

// Above the smallest size that the C library allows: thread-local storage is part of the stack.
constexpr size_t kStackBytes = size_t{256} << 10;

}  // namespace

bool StartDetachedThread(void* (*run)(void*), const char* name) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // The thread inherits this mask and never runs with a signal unblocked.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, run, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (started) pthread_setname_np(thread, name);
  return started;
}

void SleepMilliseconds(int ms) {
  const timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
}

}  // namespace tcmalloc
