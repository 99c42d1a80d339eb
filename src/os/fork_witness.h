// SPDX-License-Identifier: BSD-3-Clause
// ForkWitness: tells the two processes of a fork apart before any handler has run in the child. A
// sandbox may forbid getpid, so a page shows it: the kernel clears the page in the child
// (MADV_WIPEONFORK, Linux 4.14). Without such a page the process id decides.
//
// Called around fork by the forking thread (Begin, End), and by threads of the parent and of the
// child (InChild). Thread safety: any; one thread at a time is between Begin and End. All functions
// keep errno and may be called by a signal handler. Cost: the first Begin or Watch makes three
// system calls and permanently takes a page; InChild is two loads.
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
               ? page_.load(std::memory_order_relaxed)->forking.load(std::memory_order_relaxed) == 0
               : OtherProcess(forking);
  }

  // Returns a word that is 1 in this process, and 0 in each process that gets a copy of its memory,
  // by fork or any other way, until Watch is called there. Null if the kernel has no such pages.
  const std::atomic<uint32_t>* Watch();

 private:
  // A value of forking_ that is greater than any process id: the page shows which process this is.
  static constexpr uint64_t kPageTells = UINT64_MAX;

  // Each word is 0, or 1 in the process that wrote it. Relaxed: a child gets the values of the
  // thread that makes it.
  struct Page {
    std::atomic<uint32_t> forking{0};
    std::atomic<uint32_t> watched{0};
  };

  static bool OtherProcess(uint64_t process);
  // Null if the kernel refuses.
  Page* EnsurePage();

  // 0 if no fork is under way; else kPageTells, or the id of the process that forks. Relaxed: the
  // child gets the value of the forking thread, from which all threads of the child descend.
  std::atomic<uint64_t> forking_{0};
  // Null before the first Begin or Watch, and if the kernel has no such pages. Release and acquire
  // pass the page's words to other threads.
  std::atomic<Page*> page_{nullptr};
};

}  // namespace tcmalloc
