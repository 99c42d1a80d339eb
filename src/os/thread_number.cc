// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_number.h"

#include <atomic>

namespace tcmalloc {
namespace {

// Threads that have a number. No other data depends on it: relaxed.
constinit std::atomic<uint32_t> numbered{0};

}  // namespace

constinit thread_local uint32_t this_thread_number __attribute__((tls_model("initial-exec"))) = 0;

uint32_t NumberThisThread() {
  constexpr uint32_t kNumbers = (uint32_t{1} << kThreadNumberBits) - 1;
  const uint32_t number = numbered.fetch_add(1, std::memory_order_relaxed) % kNumbers + 1;
  // A signal handler may have numbered the thread in between.
  if (this_thread_number == 0) this_thread_number = number;
  return this_thread_number;
}

}  // namespace tcmalloc
