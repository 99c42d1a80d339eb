// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_number.h"

#include <atomic>
#include <cstdint>

#include "os/process_id.h"

namespace tcmalloc {
namespace {

// Threads that have a number. No other data depends on it: relaxed.
constinit std::atomic<uint32_t> numbered{0};
// The process that is forking; 0: none. Written by the forking thread, from which the threads of
// the child descend that must read it: relaxed.
constinit std::atomic<uint64_t> forking_process{0};
// The first number that was given in a child of that process, below the child. Release and acquire:
// a thread that finds another one's number in a lock sees the value that was noted with it.
constinit std::atomic<uint64_t> first_in_child{0};

void NoteInChild(uint32_t number) {
  const uint64_t forking = forking_process.load(std::memory_order_relaxed);
  // A sandbox may forbid getpid, unless there are forks.
  if (__builtin_expect(forking == 0, true) || forking == ProcessId()) return;
  const uint64_t process = ProcessId() << 32;
  uint64_t first = first_in_child.load(std::memory_order_relaxed);
  while (first >> 32 != process >> 32 || number < static_cast<uint32_t>(first)) {
    if (first_in_child.compare_exchange_weak(first, process | number, std::memory_order_acq_rel)) {
      return;
    }
  }
}

}  // namespace

constinit thread_local uint32_t this_thread_number __attribute__((tls_model("initial-exec"))) = 0;

uint32_t NumberThisThread() {
  constexpr uint32_t kNumbers = (uint32_t{1} << kThreadNumberBits) - 1;
  const uint32_t number = numbered.fetch_add(1, std::memory_order_relaxed) % kNumbers + 1;
  NoteInChild(number);
  // A signal handler may have numbered the thread in between.
  if (this_thread_number == 0) this_thread_number = number;
  return this_thread_number;
}

void NoteFork() {
  if (forking_process.load(std::memory_order_relaxed) != 0) return;
  forking_process.store(ProcessId(), std::memory_order_relaxed);
}

void ForgetFork() { forking_process.store(0, std::memory_order_relaxed); }

bool IsOfForkedParent(uint32_t number) {
  const uint64_t forking = forking_process.load(std::memory_order_relaxed);
  if (forking == 0 || forking == ProcessId()) return false;
  const uint64_t first = first_in_child.load(std::memory_order_acquire);
  return first >> 32 != ProcessId() || number < static_cast<uint32_t>(first);
}

}  // namespace tcmalloc
