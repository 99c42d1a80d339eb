// SPDX-License-Identifier: BSD-3-Clause
// Membarrier: makes every thread of the process execute a full memory barrier, as if each had one
// in its own program at some moment between the call and its return. One thread pays for barriers
// that many other threads leave out.
//
// A kernel may lack it (Linux before 4.14) and a sandbox may forbid it. A refusal is remembered for
// good; the caller must work without.
//
// Called by: the builder of the heap (Register), and code that detaches other threads' caches
// (Issue). Thread safety: any. No call takes a lock or allocates; all keep errno. Issue may be
// called with a lock held, unlike other system calls, because its use requires that. Cost (Linux
// 6.18, 2 virtual CPUs). Register: 3 us while the process has one thread, 15 ms once it has several
// (the kernel waits for all CPUs), so it is called at initialisation. Issue: 9 to 15 us while
// another thread of the process runs, 0.5 us otherwise.
#pragma once

#include <atomic>

namespace tcmalloc {

class Membarrier {
 public:
  constexpr Membarrier() = default;
  Membarrier(const Membarrier&) = delete;
  Membarrier& operator=(const Membarrier&) = delete;

  // Tells the kernel that this process will call Issue. True when it agreed.
  bool Register();

  // Issues the barrier. False when there was none: the caller must not rely on it. Registers first
  // if necessary. (A forked child has its parent's registration, an executed program has none.)
  [[nodiscard]] bool Issue();

  // False once the OS has refused in a way that further calls would not change.
  bool available() const { return available_.load(std::memory_order_relaxed); }

 private:
  // Whether a call that ended with `error` (0: success) did what it should.
  bool Succeeded(int error);

  // Cleared by any thread, read by any. No other data depends on it: relaxed.
  std::atomic<bool> available_{true};
};

}  // namespace tcmalloc
