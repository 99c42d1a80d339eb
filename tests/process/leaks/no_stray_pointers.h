// SPDX-License-Identifier: BSD-3-Clause
// Helpers for programs that leak objects on purpose: a pointer that a function used must not stay
// where a leak checker looks.
#pragma once

#include <string.h>

#include <thread>

// Hides a pointer's value from the compiler.
template <typename T>
inline T* Opaque(T* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

// Overwrites the stack, since the next thread may get the stack of one that has just ended. Call it
// last on a thread.
__attribute__((noinline)) inline void ClearStack() {
  char below[32768];
  memset(Opaque(below), 0, sizeof(below));
  Opaque(below);
}

// Runs f on a thread of its own, so that none of its pointers stay in the caller's registers and on
// its stack.
template <typename F>
__attribute__((noinline)) void Elsewhere(F f) {
  std::thread thread([&f] {
    f();
    ClearStack();
  });
  thread.join();
}
