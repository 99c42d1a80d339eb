// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/memory_reader.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <type_traits>

#include "base/compiler.h"
#include "instruments/world_stop/thread_state.h"

namespace tcmalloc {
namespace {

// The smallest page of any machine: readable memory may end at a multiple of it.
constexpr uintptr_t kPageBytes = 4096;

// These include faults that only a bug of this library or a sandbox can cause. abort() sends
// SIGABRT to the thread whose thread-local storage it uses; that thread is not in the task's
// process, so abort continues to an instruction that faults.
constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGSYS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};

// Written once by a task before it faults, read by its handlers. One task at a time.
constinit std::atomic<int>* fatal = nullptr;

void OnFault(int signal, siginfo_t* info, void* context);

#if (defined(__x86_64__) && defined(__LP64__)) || defined(__i386__) || defined(__aarch64__)
constexpr bool kGuards = true;

// Symbols that the linker keeps inside the library.
extern "C" {
// Copies `bytes` bytes. The instructions that load are at known addresses, so that the handler
// recognises their faults and can resume the task after them. A register then contains the number
// of bytes left. Returns the number of bytes copied.
size_t tcmalloc_guarded_copy(void* to, uintptr_t from, size_t bytes)
    __attribute__((visibility("hidden")));
extern const char tcmalloc_guarded_load[] __attribute__((visibility("hidden")));
extern const char tcmalloc_guarded_end[] __attribute__((visibility("hidden")));
#if defined(__aarch64__)
// A label inside the function. The code from there on copies byte by byte: the bytes that do not
// fill a word, and the readable bytes of a word whose load faulted.
extern const char tcmalloc_guarded_bytes[] __attribute__((visibility("hidden")));
#else
// The kernel makes handlers return to this function.
void tcmalloc_fault_return() __attribute__((visibility("hidden")));
#endif
}

#if defined(__aarch64__)
asm(".pushsection .text\n\t"
    ".type tcmalloc_guarded_copy, %function\n"
    "tcmalloc_guarded_copy:\n\t"
    ".cfi_startproc\n\t"
    "mov x3, x2\n"
    "tcmalloc_guarded_load:\n\t"
    "cmp x3, #16\n\t"
    "b.lo tcmalloc_guarded_bytes\n\t"
    "ldp x4, x5, [x1]\n\t"
    "stp x4, x5, [x0], #16\n\t"
    "add x1, x1, #16\n\t"
    "sub x3, x3, #16\n\t"
    "b tcmalloc_guarded_load\n"
    "tcmalloc_guarded_bytes:\n\t"
    "cbz x3, tcmalloc_guarded_end\n\t"
    "ldrb w4, [x1]\n\t"
    "strb w4, [x0], #1\n\t"
    "add x1, x1, #1\n\t"
    "sub x3, x3, #1\n\t"
    "b tcmalloc_guarded_bytes\n"
    "tcmalloc_guarded_end:\n\t"
    "sub x0, x2, x3\n\t"
    "ret\n\t"
    ".cfi_endproc\n\t"
    ".size tcmalloc_guarded_copy, . - tcmalloc_guarded_copy\n\t"
    ".popsection");
#else
asm(".pushsection .text\n\t"
    ".type tcmalloc_guarded_copy, @function\n\t"
    ".type tcmalloc_fault_return, @function\n"
    "tcmalloc_guarded_copy:\n\t"
    ".cfi_startproc\n\t"
#if defined(__i386__)
    "push %esi\n\t"
    ".cfi_adjust_cfa_offset 4\n\t"
    "push %edi\n\t"
    ".cfi_adjust_cfa_offset 4\n\t"
    "mov 12(%esp), %edi\n\t"
    "mov 16(%esp), %esi\n\t"
    "mov 20(%esp), %ecx\n"
    "tcmalloc_guarded_load:\n\t"
    "rep movsb\n"
    "tcmalloc_guarded_end:\n\t"
    "mov 20(%esp), %eax\n\t"
    "sub %ecx, %eax\n\t"
    "pop %edi\n\t"
    ".cfi_adjust_cfa_offset -4\n\t"
    "pop %esi\n\t"
    ".cfi_adjust_cfa_offset -4\n\t"
#else
    "mov %rdx, %rcx\n"
    "tcmalloc_guarded_load:\n\t"
    "rep movsb\n"
    "tcmalloc_guarded_end:\n\t"
    "mov %rdx, %rax\n\t"
    "sub %rcx, %rax\n\t"
#endif
    "ret\n\t"
    ".cfi_endproc\n\t"
    ".size tcmalloc_guarded_copy, . - tcmalloc_guarded_copy\n"
    "tcmalloc_fault_return:\n\t"
#if defined(__i386__)
    "mov $173, %eax\n\t"
    "int $0x80\n\t"
#else
    "mov $15, %eax\n\t"
    "syscall\n\t"
#endif
    ".size tcmalloc_fault_return, . - tcmalloc_fault_return\n\t"
    ".popsection");
#endif

size_t CopyGuarded(void* to, uintptr_t from, size_t bytes) {
  return tcmalloc_guarded_copy(to, from, bytes);
}

// Resumes after a fault of the guarded copy; false for any other fault.
bool SkipGuardedCopy(void* context) {
#if defined(__aarch64__)
  auto& next = static_cast<ucontext_t*>(context)->uc_mcontext.pc;
#elif defined(__i386__)
  auto& next = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[14];  // REG_EIP
#else
  auto& next = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[16];  // REG_RIP
#endif
  const uintptr_t load = reinterpret_cast<uintptr_t>(tcmalloc_guarded_load);
  const uintptr_t end = reinterpret_cast<uintptr_t>(tcmalloc_guarded_end);
  const uintptr_t at = static_cast<uintptr_t>(next);
  if (at - load >= end - load) return false;
  uintptr_t resume = end;
#if defined(__aarch64__)
  const uintptr_t bytes = reinterpret_cast<uintptr_t>(tcmalloc_guarded_bytes);
  if (at < bytes) resume = bytes;
#endif
  next = static_cast<std::remove_reference_t<decltype(next)>>(resume);
  return true;
}

// Bypasses the C library's function, which sanitizers replace by one with a table for the whole
// process.
bool SetHandler(int signal) {
#if defined(__aarch64__)
  // The kernel makes handlers return to a function of its own.
  constexpr unsigned long kRestorer = 0;
  constexpr void (*kReturn)() = nullptr;
#else
  constexpr unsigned long kRestorer = 0x04000000;
  constexpr void (*kReturn)() = &tcmalloc_fault_return;
#endif
  const struct {  // the system call's layout
    void (*handler)(int, siginfo_t*, void*);
    unsigned long flags;
    void (*restorer)();
    uint64_t mask;
  } action = {&OnFault, SA_SIGINFO | SA_ONSTACK | SA_NODEFER | kRestorer, kReturn, 0};
  return syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof(action.mask)) == 0;
}
#else
constexpr bool kGuards = false;

size_t CopyGuarded(void*, uintptr_t, size_t) { return 0; }

bool SkipGuardedCopy(void*) { return false; }

bool SetHandler(int signal) {
  struct sigaction action = {};
  action.sa_sigaction = &OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  return sigaction(signal, &action, nullptr) == 0;
}
#endif

void OnFault(int signal, siginfo_t*, void* context) {
  if ((signal == SIGSEGV || signal == SIGBUS) && SkipGuardedCopy(context)) return;
  fatal->store(signal, std::memory_order_relaxed);
  for (;;) RawCall(SYS_exit_group, 1);
}

// Reads from one page or more; returns 0 when a page cannot be read as a whole.
size_t CopyBySystem(void* to, uintptr_t from, size_t bytes) {
  const iovec local = {to, bytes};
  const iovec remote = {reinterpret_cast<void*>(from), bytes};
  const long self = syscall(SYS_getpid);
  const long n = syscall(SYS_process_vm_readv, self, &local, 1L, &remote, 1L, 0L);
  return n > 0 ? static_cast<size_t>(n) : 0;
}

}  // namespace

bool MemoryReader::CanGuard() const { return kGuards && guarded_; }

bool MemoryReader::Works() const {
  const uintptr_t word = 1;
  return Word(reinterpret_cast<uintptr_t>(&word)) == word;
}

size_t MemoryReader::Copy(void* to, uintptr_t from, size_t bytes) const {
  if (CanGuard()) return CopyGuarded(to, from, bytes);
  size_t done = 0;
  while (done < bytes) {
    const uintptr_t at = from + done;
    const size_t part = std::min<size_t>(bytes - done, kPageBytes - at % kPageBytes);
    if (CopyBySystem(static_cast<char*>(to) + done, at, part) != part) break;
    done += part;
  }
  return done;
}

bool HandleFaults(void* stack, size_t bytes, std::atomic<int>* fatal_signal) {
  fatal = fatal_signal;
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = bytes;
  if (syscall(SYS_sigaltstack, &alternate, nullptr) != 0) return false;
  uint64_t faults = 0;
  for (const int signal : kFaults) {
    if (!SetHandler(signal)) return false;
    faults |= uint64_t{1} << (signal - 1);
  }
  return syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &faults, nullptr, sizeof(faults)) == 0;
}

}  // namespace tcmalloc
