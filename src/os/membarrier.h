// SPDX-License-Identifier: BSD-3-Clause
// Membarrier: makes every thread of the process execute a full memory barrier, as if each had one
// in its own program at some moment between the call and its return. With it one thread can pay for
// the barriers that many others leave out.
//
// A kernel may lack it (Linux before 4.14) and a sandbox may forbid it. Both are remembered, once
// and for all; whoever calls must be able to do without.
//
// Called by: the builder of the heap (Register), whoever takes other threads' caches (Issue).
// Thread safety: any. No call takes a lock or allocates, all keep `errno`; Issue is the one system
// call that may be made with a lock held, because what it is for would not work otherwise.
// Cost (Linux 6.18, 2 virtual CPUs). Register: 3 us while the process has one thread, 15 ms once it
// has several (the kernel waits for all processors), hence at initialisation. Issue: 9 to 15 us
// while another thread of the process runs, 0.5 us otherwise.
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

  // Issues the barrier. False when there was none: the caller must not rely on anything then.
  // Registers first where that has not been done. (A forked child has its parent's registration, a
  // program that was executed has none.)
  [[nodiscard]] bool Issue();

  // False once the system has refused in a way that no further try would change.
  bool available() const { return available_.load(std::memory_order_relaxed); }

 private:
  // Whether a call that ended with `error` (0: success) did what it should.
  bool Succeeded(int error);

  // Cleared by any thread, read by any. Nothing else hangs on it: relaxed.
  std::atomic<bool> available_{true};
};

}  // namespace tcmalloc
