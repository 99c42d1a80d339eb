// SPDX-License-Identifier: BSD-3-Clause
// ThreadNumbers, and ForkWitness by which they tell a forked child from its parent.
//
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

// ForkWitness: tells the two processes of a fork apart before any handler has run in the child. A
// sandbox may forbid getpid, so a page shows it: the kernel clears the page in the child
// (MADV_WIPEONFORK, Linux 4.14). Without such a page the process id decides.
//
// Called around fork by the forking thread (Begin, End), and by threads of the parent and of the
// child (InChild). Thread safety: any; one thread at a time is between Begin and End. All functions
// keep errno and may be called by a signal handler. Cost: the first Begin or Watch makes three
// system calls and permanently takes a page; InChild is two loads.
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

  // The forking thread calls these around fork. NoteFork comes before the fork, and has no effect
  // in a nested fork. Until ForgetFork, IsOfForkedParent is true in the child for the numbers that
  // were given to threads of the parent, and false in the parent.
  void NoteFork();
  void ForgetFork() { witness_.End(); }
  // See ForkWitness::Watch.
  const std::atomic<uint32_t>* WatchProcess() { return witness_.Watch(); }
  // Requires: the caller has seen the number in a lock, by an acquiring load.
  bool IsOfForkedParent(uint32_t number) const;

 private:
  // Numbers are in the order in which they are given, on a circle.
  static constexpr uint32_t kMask = (uint32_t{1} << kThreadNumberBits) - 1;

  void NoteInChild(uint32_t number);

  // The last number that was given, and higher bits. Relaxed: the only data that depends on it is
  // in a lock with the number.
  std::atomic<uint32_t> given_;
  // Set once. Relaxed: see given_.
  std::atomic<bool> may_repeat_{false};
  ForkWitness witness_;
  // The first number that was given in the child of the present fork; 0 if there is none. Release
  // and acquire: a thread that finds another thread's number in a lock sees the value that was
  // stored with it.
  std::atomic<uint32_t> first_in_child_{0};
};

extern constinit ThreadNumbers thread_numbers;

inline uint32_t ThisThreadNumber() {
  const uint32_t number = this_thread_number;
  return __builtin_expect(number != 0, true) ? number : NumberThisThread();
}

}  // namespace tcmalloc
