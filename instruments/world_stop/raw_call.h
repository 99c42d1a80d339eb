// SPDX-License-Identifier: BSD-3-Clause
// System calls that bypass the C library, which would store errno: for a thread whose thread-local
// storage another task is using. They return the kernel's result: a small negative number is minus
// an errno.
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tcmalloc {

inline long RawCall(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
#if defined(__x86_64__) && defined(__LP64__)
  long result;
  register long fourth asm("r10") = d;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__i386__)
  long result;
  asm volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d) : "memory");
  return result;
#elif defined(__aarch64__)
  register long call asm("x8") = number;
  register long first asm("x0") = a;
  register long second asm("x1") = b;
  register long third asm("x2") = c;
  register long fourth asm("x3") = d;
  asm volatile("svc 0" : "+r"(first) : "r"(call), "r"(second), "r"(third), "r"(fourth) : "memory");
  return first;
#else
  const long result = syscall(number, a, b, c, d);
  return result == -1 ? -errno : result;
#endif
}

}  // namespace tcmalloc
