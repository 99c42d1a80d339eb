// SPDX-License-Identifier: BSD-3-Clause
// Threads as the library sees them: a number of each, a function at its end, how they wait, and the
// threads that the library starts itself.
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "base/compiler.h"
#include "os/errno_keeper.h"

namespace tcmalloc {

// A small number that identifies the calling thread in its process: above 0 and below 2^26. A
// forked child keeps it. Cost: a load after the first call.
//
// A number is given again 2^26 - 1 threads later. So two living threads may have the same number,
// if that many threads were created between them. Numbers are used only around fork. There the
// address of its number distinguishes the forking thread from the other one
// (SpinLock::IsForkingThread). A lock that seems to belong to the forking thread, in a section that
// a signal handler interrupted, may belong to the other one: then the hold waits for it (HoldHeap,
// HoldForFork). One defect remains: memory that the other thread is releasing or moving at the time
// of the fork may stay unused in the child.

inline constexpr int kThreadNumberBits = 26;

extern constinit thread_local uint32_t this_thread_number
    __attribute__((tls_model("initial-exec")));
// Assigns the thread its number.
TC_SLOW_PATH uint32_t NumberThisThread();

// Gives the numbers of a process. Thread safety: any.
class ThreadNumbers {
 public:
  // `given` numbers have been given so far, modulo 2^32.
  explicit constexpr ThreadNumbers(uint32_t given = 0) : given_(given) {}

  uint32_t New();
  // True if all numbers have been given, so that two threads may have the same one.
  bool MayRepeat() const { return may_repeat_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kMask = (uint32_t{1} << kThreadNumberBits) - 1;

  // The last number that was given, and higher bits. Relaxed: other threads see a
  // number only as the owner in a lock.
  std::atomic<uint32_t> given_;
  // Set once. Relaxed: see given_.
  std::atomic<bool> may_repeat_{false};
};

extern constinit ThreadNumbers thread_numbers;

inline uint32_t ThisThreadNumber() {
  const uint32_t number = this_thread_number;
  return __builtin_expect(number != 0, true) ? number : NumberThisThread();
}

// Runs a function at the end of each thread that requested it, after the destructors of the
// thread's C++ thread_local objects and among those of its pthread keys.
class ThreadExitHook {
 public:
  // Calls `on_exit(value)` at the end of each thread that called Arm(value) with a value that is
  // not null. With glibc that also holds for a call in the last destructor of another key (see
  // threads.cc). False when the process has no key left. Called once. Does not allocate.
  static bool Init(void (*on_exit)(void*));

  // Arms the calling thread. May call malloc, which must work, since the C library keeps the values
  // of high-numbered keys in memory from calloc. False if that failed.
  static bool Arm(void* value);

  // True if the C library may be past the last pthread key destructor of the calling thread, so
  // that arming it would have no effect. The sign is that the signals are blocked that the C
  // library reserves for itself, and that its functions cannot block: it blocks them for the last
  // part of a thread's end, before it frees its data of the thread. Also true in other places where
  // the C library blocks them, and when a sandbox forbids the query. Returns false even then with C
  // libraries that do not block them (glibc before 2.34). Cost: a system call.
  static bool MayHavePassed();
};

// Waiting until a word in memory changes (Linux: futex), among threads of one process. The
// functions keep errno, are no cancellation points and never allocate. Thread safety: any. Cost: a
// system call.

// Sleeps until a wake, if the word has this value. May return early.
inline void FutexWait(std::atomic<uint32_t>* word, uint32_t value) {
  const ErrnoKeeper keeper;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

// Like FutexWait, for at most `ms` milliseconds.
inline void FutexWaitFor(std::atomic<uint32_t>* word, uint32_t value, int64_t ms) {
  struct {  // the system call's layout, even where time_t is longer
    long seconds;
    long nanoseconds;
  } const time = {static_cast<long>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
  const ErrnoKeeper keeper;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &time, nullptr, 0);
}

inline void FutexWakeOne(std::atomic<uint32_t>* word) {
  const ErrnoKeeper keeper;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

inline void FutexWakeAll(std::atomic<uint32_t>* word) {
  const ErrnoKeeper keeper;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// The library's own threads. Each has a small stack, and the signal mask of os/signals.h
// for its whole life.

// The type of pthread_create.
using CreateThreadFunction = int (*)(pthread_t* thread, const pthread_attr_t* attributes,
                                     void* (*start)(void*), void* argument);

// Starts, by `create`, a thread that must be joined by pthread_join. The thread gets no name, so
// the only system calls are those of pthread_create. False when no thread can be created. Requires:
// the caller has a BlockedSignals. Allocates.
bool StartJoinableThread(CreateThreadFunction create, void* (*run)(void*), pthread_t* thread);

// Whether `start` is the start function of the threads of this file. An interposed pthread_create
// calls it to distinguish the library's threads from the program's.
bool IsOwnThreadStart(void* (*start)(void*));

// Sleeps; may return early. It is a cancellation point.
void SleepMilliseconds(int ms);

}  // namespace tcmalloc
