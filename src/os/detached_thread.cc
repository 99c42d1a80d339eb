// SPDX-License-Identifier: BSD-3-Clause
#include "os/detached_thread.h"

#include <time.h>

#include <cstddef>

#include "os/signals.h"

namespace tcmalloc {
namespace {

// The size exceeds the smallest one that the C library allows, since thread-local storage is part
// of the stack.
constexpr size_t kStackBytes = size_t{256} << 10;

using Function = void* (*)(void*);

void* Begin(void* run) { return reinterpret_cast<Function>(run)(nullptr); }

bool Start(CreateThreadFunction create, Function run, int detach_state, pthread_t* thread) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, detach_state);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // The thread inherits the mask and never runs with a signal unblocked.
  const bool started = create(thread, &attributes, &Begin, reinterpret_cast<void*>(run)) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

bool StartDetachedThread(Function run, const char* name) {
  pthread_t thread;
  const BlockedSignals blocked;
  if (!Start(&pthread_create, run, PTHREAD_CREATE_DETACHED, &thread)) return false;
  pthread_setname_np(thread, name);
  return true;
}

bool StartJoinableThread(CreateThreadFunction create, Function run, pthread_t* thread) {
  return Start(create, run, PTHREAD_CREATE_JOINABLE, thread);
}

bool IsOwnThreadStart(Function start) { return start == &Begin; }

void SleepMilliseconds(int ms) {
  const timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
}

}  // namespace tcmalloc
