// SPDX-License-Identifier: BSD-3-Clause
// A small number that identifies the calling thread in its process: above 0 and below 2^26. A
// forked child keeps it. Cost: a load after the first call.
//
// A number is given again 2^26 - 1 threads later. So two living threads may have the same one, if
// the older of them has lived that long. Numbers are used around fork alone. There the address of
// its number tells the forking thread from the other one (SpinLock::IsForkingThread). A lock that
// seems to be the forking thread's own, in a section that a signal handler interrupted, may be the
// other one's: then the hold waits for it (HoldHeap, HoldForFork). What stays: memory that the
// other one is releasing or moving at the time of the fork may stay unused in the child.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "os/fork_witness.h"

namespace tcmalloc {

inline constexpr int kThreadNumberBits = 26;

extern constinit thread_local uint32_t this_thread_number
    __attribute__((tls_model("initial-exec")));
// Assigns the thread its number.
TC_SLOW_PATH uint32_t NumberThisThread();

// Gives the numbers of a process. Thread safety: any.
class ThreadNumbers {
 public:
  // `given` have been given, modulo 2^32.
  explicit constexpr ThreadNumbers(uint32_t given = 0) : given_(given) {}

  uint32_t New();
  // Each number has been given: a thread's may be that of another one.
  bool MayRepeat() const { return may_repeat_.load(std::memory_order_relaxed); }

  // Around fork, by the forking thread. NoteFork comes before the fork; in a nested one it has no
  // effect. Until ForgetFork, IsOfForkedParent is true in the child for the numbers that were given
  // to threads of the parent, and false in the parent.
  void NoteFork();
  void ForgetFork() { witness_.End(); }
  // Requires: the caller has seen the number in a lock, by an acquiring load.
  bool IsOfForkedParent(uint32_t number) const;

 private:
  // Numbers are in the order in which they are given, on a circle.
  static constexpr uint32_t kMask = (uint32_t{1} << kThreadNumberBits) - 1;

  void NoteInChild(uint32_t number);

  // The last number, and higher bits. Relaxed: the only data that depends on it is in a lock with
  // the number.
  std::atomic<uint32_t> given_;
  // Set once. Relaxed: see given_.
  std::atomic<bool> may_repeat_{false};
  ForkWitness witness_;
  // The first number that was given in the child of the fork under way; 0: none. Release and
  // acquire: a thread that finds another one's number in a lock sees the value that was noted with
  // it.
  std::atomic<uint32_t> first_in_child_{0};
};

extern constinit ThreadNumbers thread_numbers;

inline uint32_t ThisThreadNumber() {
  const uint32_t number = this_thread_number;
  return __builtin_expect(number != 0, true) ? number : NumberThisThread();
}

}  // namespace tcmalloc
