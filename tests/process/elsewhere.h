// SPDX-License-Identifier: BSD-3-Clause
// For programs that leak objects on purpose: no pointer that a function used may stay where a leak
// checker looks.
#pragma once

#include <string.h>

#include <thread>

// Hides a pointer's value from the compiler.
template <typename T>
inline T* Opaque(T* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

// The next thread may get the stack of the one that has just ended. Called last on a thread.
__attribute__((noinline)) inline void ClearStack() {
  char below[32768];
  memset(Opaque(below), 0, sizeof(below));
  Opaque(below);
}

// Runs f on a thread of its own, so that nothing of it stays in the caller's registers and on its
// stack.
template <typename F>
__attribute__((noinline)) void Elsewhere(F f) {
  std::thread thread([&f] {
    f();
    ClearStack();
  });
  thread.join();
}
