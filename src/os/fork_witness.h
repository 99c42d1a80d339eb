// SPDX-License-Identifier: BSD-3-Clause
// ForkWitness: tells the two processes of a fork apart, before any handler has run in the child. A
// sandbox may forbid getpid, so a page tells it: the kernel gives the child zeroes in its place
// (MADV_WIPEONFORK, Linux 4.14). Without such a page the number of the process decides.
//
// Called around fork by the forking thread (Begin, End), and by threads of the parent and of the
// child (InChild). Thread safety: any; one thread at a time is between Begin and End. All keep
// errno and may be called by a signal handler. Cost: the first Begin makes two system calls and
// takes a page for good; InChild is two loads.
#pragma once

#include <atomic>
#include <cstdint>

namespace tcmalloc {

class ForkWitness {
 public:
  constexpr ForkWitness() = default;
  ForkWitness(const ForkWitness&) = delete;
  ForkWitness& operator=(const ForkWitness&) = delete;

  // Before the fork; has no effect between Begin and End.
  void Begin();
  // In the parent and in the child.
  void End() { forking_.store(0, std::memory_order_relaxed); }
  // Between Begin and End: this process is the child.
  bool InChild() const {
    const uint64_t forking = forking_.load(std::memory_order_relaxed);
    if (__builtin_expect(forking == 0, true)) return false;
    return forking == kPageTells
               ? page_.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) == 0
               : OtherProcess(forking);
  }

 private:
  // Greater than the number of any process.
  static constexpr uint64_t kPageTells = UINT64_MAX;

  static bool OtherProcess(uint64_t process);

  // 0: no fork is under way; kPageTells; or the number of the process that forks. The child gets
  // the copy of the forking thread, from which all its threads descend: relaxed.
  std::atomic<uint64_t> forking_{0};
  // The first word of the page, 1 in the parent. Null before the first Begin, and where the kernel
  // has no such pages.
  std::atomic<std::atomic<uint32_t>*> page_{nullptr};
};

}  // namespace tcmalloc
