// SPDX-License-Identifier: BSD-3-Clause
// ForkWitness: tells the two processes of a fork apart before any handler has run in the child. A
// sandbox may forbid getpid, so a page shows it: the kernel clears the page in the child
// (MADV_WIPEONFORK, Linux 4.14). Without such a page the process id decides.
//
// Called around fork by the forking thread (Begin, End), and by threads of the parent and of the
// child (InChild). Thread safety: any; one thread at a time is between Begin and End. All functions
// keep errno and may be called by a signal handler. Cost: the first Begin makes two system calls
// and permanently takes a page; InChild is two loads.
#pragma once

#include <atomic>
#include <cstdint>

namespace tcmalloc {

class ForkWitness {
 public:
  constexpr ForkWitness() = default;
  ForkWitness(const ForkWitness&) = delete;
  ForkWitness& operator=(const ForkWitness&) = delete;

  // Called before the fork; has no effect between Begin and End.
  void Begin();
  // Called in the parent and in the child.
  void End() { forking_.store(0, std::memory_order_relaxed); }
  // Whether this process is the child. Requires: between Begin and End.
  bool InChild() const {
    const uint64_t forking = forking_.load(std::memory_order_relaxed);
    if (__builtin_expect(forking == 0, true)) return false;
    return forking == kPageTells
               ? page_.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) == 0
               : OtherProcess(forking);
  }

 private:
  // A value of forking_ that is greater than any process id: the page shows which process this is.
  static constexpr uint64_t kPageTells = UINT64_MAX;

  static bool OtherProcess(uint64_t process);

  // 0 if no fork is under way; else kPageTells, or the id of the process that forks. Relaxed: the
  // child gets the value of the forking thread, from which all threads of the child descend.
  std::atomic<uint64_t> forking_{0};
  // The first word of the page, which is 1 in the parent. Null before the first Begin, and if the
  // kernel has no such pages.
  std::atomic<std::atomic<uint32_t>*> page_{nullptr};
};

}  // namespace tcmalloc
