// SPDX-License-Identifier: BSD-3-Clause
// CPUs: the one that the calling thread runs on, and a memory barrier on all that run a thread of
// the process.
#pragma once

#include <sched.h>

#include <atomic>

#include "base/config.h"
#include "os/errno_keeper.h"

namespace tcmalloc {

// Debug builds only: functions by which a test, instead of the OS, decides on which CPU a thread
// runs. So a test can have more CPUs than the machine. No environment variable sets it, and release
// builds lack it, so no program can turn it on.
struct FakeProcessor {
  int (*cpu)();
};
// Written once, before other threads exist. Relaxed, since the functions that it points to are
// constant.
inline constinit std::atomic<const FakeProcessor*> fake_processor{nullptr};

// Returns the CPU's number, which may be outdated at once; -1 when the OS does not report it. Cost:
// a load if the C library has registered restartable sequences, otherwise a call into the vDSO
// (some ten nanoseconds). Keeps errno.
inline int CurrentProcessor() {
  if constexpr (kDebugBuild) {
    const FakeProcessor* const fake = fake_processor.load(std::memory_order_relaxed);
    if (fake != nullptr) return fake->cpu();
  }
  // sched_getcpu may make a system call, which a sandbox may forbid.
  const ErrnoKeeper keeper;
  return sched_getcpu();
}

// Makes every thread of the process execute a full memory barrier at some moment
// between the call and its return. The caller bears the cost, so that the other threads need no
// barriers of their own.
//
// A kernel may lack it (Linux before 4.14) and a sandbox may forbid it. A permanent refusal is
// remembered; the caller must work without the barrier.
//
// Called by: the builder of the heap (Register), and code that detaches other threads' caches
// (Issue). Thread safety: any. No call takes a lock or allocates; all keep errno. Issue may be
// called with a lock held, unlike other system calls, because its use requires that. Cost (Linux
// 6.18, 2 virtual CPUs). Register takes 3 us while the process has one thread, and 15 ms once it
// has several (the kernel waits for all CPUs), so it is called at initialisation. Issue takes 9 to
// 15 us while another thread of the process runs, 0.5 us otherwise.
class Membarrier {
 public:
  constexpr Membarrier() = default;
  Membarrier(const Membarrier&) = delete;
  Membarrier& operator=(const Membarrier&) = delete;

  // Tells the kernel that this process will call Issue. True when the kernel agreed.
  bool Register();

  // Issues the barrier. False when there was none: the caller must not rely on it. Registers first
  // if necessary. (A forked child has its parent's registration; a program started by exec has
  // none.)
  [[nodiscard]] bool Issue();

  // False once the OS has refused in a way that further calls would not change.
  bool available() const { return available_.load(std::memory_order_relaxed); }

 private:
  // Whether a call that ended with `error` (0: success) did what it should.
  bool Succeeded(int error);

  // Any thread clears it, any thread reads it. Relaxed, since no other data depends on it.
  std::atomic<bool> available_{true};
};

}  // namespace tcmalloc
