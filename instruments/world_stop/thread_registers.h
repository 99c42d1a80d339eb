// SPDX-License-Identifier: BSD-3-Clause
// Reads the registers of the calling thread, and of a thread that the calling task has stopped by
// ptrace. The result is an array of words, and the stack pointer and the thread pointer by name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"

namespace tcmalloc {

// The registers that a function must preserve and that may hold a pointer.
struct OwnRegisters {
  static constexpr size_t kMax = 12;
  uintptr_t words[kMax] = {};
  uintptr_t stack_pointer = 0;
  uintptr_t thread_pointer = 0;
};

// It is always inlined, so that the values that the calling function found in these registers are
// in `registers`, or in its frame, above the stack pointer.
TC_FAST_PATH void ReadOwnRegisters(OwnRegisters* registers) {
  uintptr_t* const words = registers->words;
#if defined(__x86_64__)
  asm volatile(
      "mov %%rbx, 0(%0)\n\t"
      "mov %%rbp, 8(%0)\n\t"
      "mov %%r12, 16(%0)\n\t"
      "mov %%r13, 24(%0)\n\t"
      "mov %%r14, 32(%0)\n\t"
      "mov %%r15, 40(%0)"
      :
      : "r"(words)
      : "memory");
  asm volatile("mov %%rsp, %0" : "=r"(registers->stack_pointer));
  // The control block begins with its own address in every C library.
  asm volatile("mov %%fs:0, %0" : "=r"(registers->thread_pointer));
#elif defined(__i386__)
  asm volatile(
      "mov %%ebx, 0(%0)\n\t"
      "mov %%esi, 4(%0)\n\t"
      "mov %%edi, 8(%0)\n\t"
      "mov %%ebp, 12(%0)"
      :
      : "r"(words)
      : "memory");
  asm volatile("mov %%esp, %0" : "=r"(registers->stack_pointer));
  asm volatile("mov %%gs:0, %0" : "=r"(registers->thread_pointer));
#elif defined(__aarch64__)
  asm volatile(
      "stp x19, x20, [%0, #0]\n\t"
      "stp x21, x22, [%0, #16]\n\t"
      "stp x23, x24, [%0, #32]\n\t"
      "stp x25, x26, [%0, #48]\n\t"
      "stp x27, x28, [%0, #64]\n\t"
      "str x29, [%0, #80]"
      :
      : "r"(words)
      : "memory");
  asm volatile("mov %0, sp" : "=r"(registers->stack_pointer));
  asm volatile("mrs %0, tpidr_el0" : "=r"(registers->thread_pointer));
#else
  static_cast<void>(words);
  registers->stack_pointer = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
#endif
}

// Room for a thread's registers: all general-purpose ones, and as many vector registers as fit.
inline constexpr size_t kMaxRegisterBytes = 8192;

// True if ReadRegistersOf supports this machine.
bool KnowsRegisters();

struct StoppedRegisters {
  size_t num_words = 0;
  uintptr_t stack_pointer = 0;
  uintptr_t thread_pointer = 0;
};

// Stores the registers of the thread at `words`, kMaxRegisterBytes long. Returns 0 or an errno:
// ESRCH if the thread has been killed meanwhile. Requires: the calling task has stopped it by
// ptrace.
int ReadRegistersOf(int thread_id, uintptr_t* words, StoppedRegisters* registers);

}  // namespace tcmalloc
