// SPDX-License-Identifier: BSD-3-Clause
// What the OS says of threads: which there are, how many, the state of one (from /proc), and the
// registers of the calling thread and of a stopped one. Allocates nothing; changes errno.
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/compiler.h"
#include "base/text.h"

namespace tcmalloc {

// System calls that bypass the C library, since that would store errno. A task needs them when it
// uses the thread-local storage of another thread. They return the kernel's result: a small
// negative number is minus an errno.

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

// Parses directory entries in the format of getdents64 (struct linux_dirent64), and calls f(id) for
// each whose name is a number. Stops and sets `*stopped` when f returns false. Returns false when
// an entry is malformed or cut off. A pure function.
template <typename F>
bool ForEachThreadEntry(std::string_view entries, bool* stopped, F f) {
  constexpr size_t kLengthAt = 16;
  constexpr size_t kNameAt = 19;
  // substr is not used, since it refers to a function that throws.
  const char* at = entries.data();
  size_t rest = entries.size();
  while (rest > 0) {
    uint16_t length;
    if (rest <= kNameAt) return false;
    memcpy(&length, at + kLengthAt, sizeof(length));
    if (length <= kNameAt || length > rest) return false;
    const char* const name = at + kNameAt;
    const void* const end = memchr(name, '\0', length - kNameAt);
    if (end == nullptr) return false;
    std::string_view digits(name, static_cast<size_t>(static_cast<const char*>(end) - name));
    uint64_t id;
    if (TakeNumber(&digits, &id) && digits.empty() && !f(static_cast<int>(id))) {
      *stopped = true;
      return true;
    }
    at += length;
    rest -= length;
  }
  return true;
}

// Calls f(id) for each thread in the list for which `directory` (/proc/self/task) is open, until f
// returns false. Returns 0, or an errno when the list cannot be read. The list may lack threads if
// one ends during the read. Thread safety: one reader per descriptor. Cost: a system call per 8 KiB
// of entries, some 340 threads; 8 KiB of stack.
template <typename F>
int ForEachThread(int directory, F f) {
  alignas(8) char entries[8192];
  if (syscall(SYS_lseek, directory, 0, SEEK_SET) != 0) return errno;
  for (bool stopped = false; !stopped;) {
    const long n = syscall(SYS_getdents64, directory, entries, sizeof(entries));
    if (n < 0) return errno;
    if (n == 0) return 0;
    if (!ForEachThreadEntry({entries, static_cast<size_t>(n)}, &stopped, f)) return EPROTO;
  }
  return 0;
}

// Fields of /proc/PID/status.
struct ThreadStatus {
  // True if the thread does not exist, or waits to be reaped.
  bool has_ended = false;
  // True if the thread sleeps in the kernel and does not react to signals: it waits for a disk, or
  // for the child of its vfork.
  bool is_uninterruptible = false;
  // The thread that traces this one, or 0.
  int tracer = 0;
};

// The name of a thread's file in the list of threads; `name` begins with a slash.
struct ThreadFile {
  char text[32];
};
ThreadFile ThreadFileOf(int id, std::string_view name);

// Reads the file `path` in the directory `directory`; parses the contents of that file.
ThreadStatus ReadThreadStatus(int directory, const char* path);
ThreadStatus ParseThreadStatus(std::string_view text);

// The number of threads of the process. `path` in `directory` is the file "stat" of one of them
// (proc(5)). Ended threads count until the OS has removed them. False when the file cannot be read.
bool CountThreads(int directory, const char* path, uint64_t* threads);
bool ParseThreadCount(std::string_view text, uint64_t* threads);

// Reads the registers of the calling thread, and of a thread that the calling task has stopped by
// ptrace. The result is an array of words, and the stack pointer and the thread pointer by name.

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
