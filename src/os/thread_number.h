// SPDX-License-Identifier: BSD-3-Clause
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
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"

namespace tcmalloc {

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

  // The last number that was given, and higher bits. Relaxed: the only data that depends on it is
  // in a lock with the number.
  std::atomic<uint32_t> given_;
  // Set once. Relaxed: see given_.
  std::atomic<bool> may_repeat_{false};
};

extern constinit ThreadNumbers thread_numbers;

inline uint32_t ThisThreadNumber() {
  const uint32_t number = this_thread_number;
  return __builtin_expect(number != 0, true) ? number : NumberThisThread();
}

}  // namespace tcmalloc
