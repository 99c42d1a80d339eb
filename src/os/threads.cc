// SPDX-License-Identifier: BSD-3-Clause
#include "os/threads.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "os/errno_keeper.h"
#include "os/signals.h"

namespace tcmalloc {

constinit ThreadNumbers thread_numbers;
constinit thread_local uint32_t this_thread_number __attribute__((tls_model("initial-exec"))) = 0;

uint32_t NumberThisThread() {
  const uint32_t number = thread_numbers.New();
  // A signal handler may have numbered the thread in between.
  if (this_thread_number == 0) this_thread_number = number;
  return this_thread_number;
}

uint32_t ThreadNumbers::New() {
  const auto next = [this] { return (given_.fetch_add(1, std::memory_order_relaxed) + 1) & kMask; };
  uint32_t number = next();
  if (number == 0) {
    may_repeat_.store(true, std::memory_order_relaxed);
    number = next();
  }
  return number;
}

namespace {

// Written once by Init, before any thread is armed.
constinit pthread_key_t key = 0;
constinit bool have_key = false;

// The kernel's first real-time signal. The C library uses the first ones itself; SIGRTMIN is above
// them.
constexpr int kFirstInternalSignal = 32;

// A thread ends in rounds (PTHREAD_DESTRUCTOR_ITERATIONS). Each round calls the destructors of the
// keys that have a value at that moment, in the order of the keys' numbers. A destructor may be the
// thread's first use of the allocator, even in the last round; it then arms the hook, which runs
// only if its key comes after that destructor's.
//
// So the hook takes the last key whose value glibc keeps in the thread itself. Higher keys do no
// harm: glibc callocs memory for the first of their values that a thread sets. This allocator
// serves that and arms the hook, either before the thread ends or, in the last round, in a
// destructor of a lower key.
//
// glibc assigns the lowest free number. The lower keys that Init has to create first are deleted
// again. Other C libraries assign numbers in other orders: there the hook takes the first key that
// it gets.
#if defined(__GLIBC__)
constexpr pthread_key_t kWantedKey = 31;
#else
constexpr pthread_key_t kWantedKey = 0;
#endif

}  // namespace

bool ThreadExitHook::Init(void (*on_exit)(void*)) {
  pthread_key_t lower_keys[kWantedKey + 1];
  size_t n = 0;
  while (pthread_key_create(&key, on_exit) == 0) {
    have_key = true;
    // Another thread may have taken the wanted key meanwhile.
    if (key >= kWantedKey) break;
    lower_keys[n++] = key;
  }
  // If no more keys were available, keep the highest one.
  if (n > 0 && key == lower_keys[n - 1]) --n;
  while (n > 0) pthread_key_delete(lower_keys[--n]);
  return have_key;
}

bool ThreadExitHook::Arm(void* value) {
  if (!have_key) return false;
  const ErrnoKeeper keeper;
  return pthread_setspecific(key, value) == 0;
}

bool ThreadExitHook::MayHavePassed() {
  const ErrnoKeeper keeper;
  // Makes the system call directly, since the C library's function may hide its own signals.
  uint64_t blocked = 0;
  const bool known =
      syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &blocked, sizeof(blocked)) == 0;
  return !known || (blocked >> (kFirstInternalSignal - 1) & 1) != 0;
}

namespace {

// The size exceeds the smallest one that the C library allows, since thread-local storage is part
// of the stack.
constexpr size_t kStackBytes = size_t{256} << 10;

using Function = void* (*)(void*);

void* Begin(void* run) { return reinterpret_cast<Function>(run)(nullptr); }

}  // namespace

bool StartJoinableThread(CreateThreadFunction create, Function run, pthread_t* thread) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // The thread inherits the mask and never runs with a signal unblocked.
  const bool started = create(thread, &attributes, &Begin, reinterpret_cast<void*>(run)) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

bool IsOwnThreadStart(Function start) { return start == &Begin; }

void SleepMilliseconds(int ms) {
  const timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000L};
  nanosleep(&pause, nullptr);
}

}  // namespace tcmalloc
