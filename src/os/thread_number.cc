// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_number.h"

#include <atomic>
#include <cstdint>

#include "os/fork_witness.h"

namespace tcmalloc {
namespace {

// Threads that have a number. No other data depends on it: relaxed.
constinit std::atomic<uint32_t> numbered{0};
constinit ForkWitness witness;
// The first number that was given in the child of the fork under way; 0: none. Release and acquire:
// a thread that finds another one's number in a lock sees the value that was noted with it.
constinit std::atomic<uint32_t> first_in_child{0};

void NoteInChild(uint32_t number) {
  if (!witness.InChild()) return;
  uint32_t first = first_in_child.load(std::memory_order_relaxed);
  while (first == 0 || number < first) {
    if (first_in_child.compare_exchange_weak(first, number, std::memory_order_acq_rel)) return;
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
  // In a nested fork the numbers that the child has given count on.
  if (!witness.InChild()) first_in_child.store(0, std::memory_order_relaxed);
  witness.Begin();
}

void ForgetFork() { witness.End(); }

bool IsOfForkedParent(uint32_t number) {
  if (!witness.InChild()) return false;
  const uint32_t first = first_in_child.load(std::memory_order_acquire);
  return first == 0 || number < first;
}

}  // namespace tcmalloc
