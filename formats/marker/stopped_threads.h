// SPDX-License-Identifier: BSD-3-Clause
// The threads of a stopped process, as a search of its memory needs them. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

struct StoppedThread {
  int thread_id = 0;
  // The thread that stopped the others, with its registers at that call.
  bool is_caller = false;
  uintptr_t stack_pointer = 0;
  // The register that addresses thread-local storage: the base of segment fs (x86-64) or gs (i386),
  // tpidr_el0 (aarch64). 0 if it is unknown.
  uintptr_t thread_pointer = 0;
  // The contents of the registers, vector registers included, word by word.
  const uintptr_t* registers = nullptr;
  size_t num_registers = 0;
};

struct WorldStop {
  // The caller is the first element.
  const StoppedThread* threads = nullptr;
  size_t num_threads = 0;
  // True if the array has all threads of the process that have not ended.
  bool is_complete = false;
  // The id of the process's first thread, which may have ended.
  int process_id = 0;
};

}  // namespace tcmalloc
