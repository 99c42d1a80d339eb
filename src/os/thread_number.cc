// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_number.h"

namespace tcmalloc {

constinit ThreadNumbers thread_numbers;
constinit thread_local uint32_t this_thread_number __attribute__((tls_model("initial-exec"))) = 0;

uint32_t NumberThisThread() {
  const uint32_t number = thread_numbers.New();
  // A signal handler may have numbered the thread in between.
  if (this_thread_number == 0) this_thread_number = number;
  return this_thread_number;
}

uint32_t ThreadNumbers::New() {
  const auto next = [this] { return (given_.fetch_add(1, std::memory_order_relaxed) + 1) & kMask; };
  uint32_t number = next();
  if (number == 0) {
    may_repeat_.store(true, std::memory_order_relaxed);
    number = next();
  }
  return number;
}

}  // namespace tcmalloc
