// SPDX-License-Identifier: BSD-3-Clause
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

#include "instruments/guard/guard_pool.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/memory/virtual_memory.h"
#include "os/process.h"

namespace tcmalloc {
namespace {

// How long a thread whose access faults waits for the report of another one, which reads the
// symbols of files.
constexpr int kReportPatienceMs = 5000;

constexpr std::array kSignals = {SIGSEGV, SIGBUS};
// The stack that a report needs.
constexpr size_t kStackBytes = size_t{64} << 10;

// Constant once the handler is installed.
bool (*is_reported)(uintptr_t address) = nullptr;
void (*write_report)(const Fault& fault) = nullptr;
std::array<struct sigaction, kSignals.size()> former_actions;

// The thread that writes a report; 0 if there is none.
constinit std::atomic<uint32_t> reporter{0};

Fault::Access AccessOf(const void* context) {
#if defined(__x86_64__) || defined(__i386__)
  constexpr long kIsWrite = 2;  // of the page fault's error code
  const auto error = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR];
  return (static_cast<long>(error) & kIsWrite) != 0 ? Fault::Access::kWrite : Fault::Access::kRead;
#elif defined(__aarch64__)
  // The kernel's record of the fault (struct esr_context) is among those after the registers. Each
  // begins with its kind and its length.
  constexpr uint32_t kFaultRecord = 0x45535201;
  constexpr uint64_t kIsWrite = 1 << 6;
  const auto& records = static_cast<const ucontext_t*>(context)->uc_mcontext.__reserved;
  struct {
    uint32_t kind;
    uint32_t bytes;
    uint64_t syndrome;
  } record;
  for (size_t at = 0; at + sizeof(record) <= sizeof(records); at += record.bytes) {
    memcpy(&record, &records[at], sizeof(record));
    if (record.kind == kFaultRecord) {
      return (record.syndrome & kIsWrite) != 0 ? Fault::Access::kWrite : Fault::Access::kRead;
    }
    if (record.kind == 0 || record.bytes == 0) break;
  }
  return Fault::Access::kUnknown;
#else
  static_cast<void>(context);
  return Fault::Access::kUnknown;
#endif
}

bool IsOnAlternateStack() {
  stack_t now = {};
  return syscall(SYS_sigaltstack, nullptr, &now) == 0 && (now.ss_flags & SS_ONSTACK) != 0;
}

void CallReport(const void* fault) { write_report(*static_cast<const Fault*>(fault)); }

// Calls the function with the stack pointer at `top`. If this is not implemented for the machine,
// calls it on the current stack and returns false.
bool CallOnStack(void* top, void (*function)(const void*), const void* argument) {
#if defined(__x86_64__)
  asm volatile(
      "movq %%rsp, %%rbx\n\t"
      "movq %[top], %%rsp\n\t"
      "callq *%[function]\n\t"
      "movq %%rbx, %%rsp"
      : "+D"(argument), [function] "+a"(function)
      : [top] "r"(top)
      : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
        "xmm15", "cc", "memory");
  return true;
#elif defined(__aarch64__)
  register const void* first asm("x0") = argument;
  asm volatile(
      "mov x19, sp\n\t"
      "mov sp, %[top]\n\t"
      "blr %[function]\n\t"
      "mov sp, x19"
      : "+r"(first)
      : [top] "r"(top), [function] "r"(function)
      : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
        "x15", "x16", "x17", "x18", "x19", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
        "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20",
        "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc",
        "memory");
  return true;
#else
  static_cast<void>(top);
  function(argument);
  return false;
#endif
}

void ReportOnGoodStack(const Fault& fault) {
  if (IsOnAlternateStack()) {
    SystemVirtualMemory memory;
    const Mapping stack = memory.Map(kStackBytes, memory.hardware_page_size());
    if (stack.start != nullptr) {
      CallOnStack(static_cast<char*>(stack.start) + stack.bytes, &CallReport, &fault);
      static_cast<void>(memory.Unmap(stack.start, stack.bytes));
      return;
    }
  }
  CallReport(&fault);
}

// Reports in one thread at a time. A thread whose wait times out reports nothing.
void ReportAlone(const Fault& fault) {
  const uint32_t self = ThreadId();
  if (reporter.load(std::memory_order_relaxed) == self) return;  // a fault inside a report
  for (int ms = 0; ms < kReportPatienceMs; ++ms) {
    uint32_t expected = 0;
    if (reporter.compare_exchange_strong(expected, self, std::memory_order_acquire)) {
      ReportOnGoodStack(fault);
      reporter.store(0, std::memory_order_release);
      return;
    }
    WaitMillisecond();
  }
}

// Calls the former handler of the signal, or restores the default action.
void GoOn(int signal, siginfo_t* info, void* context, const struct sigaction& former) {
  const bool is_function = (former.sa_flags & SA_SIGINFO) != 0 ||
                           (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN);
  if (is_function) {
    // The former handler is called as the kernel would call it; the end of this handler restores
    // the mask.
    pthread_sigmask(SIG_BLOCK, &former.sa_mask, nullptr);
    if ((former.sa_flags & SA_SIGINFO) != 0) {
      former.sa_sigaction(signal, info, context);
    } else {
      former.sa_handler(signal);
    }
    return;
  }
  // True for a signal that a process sent, not for a fault.
  const bool was_sent = info->si_code <= 0;
  if (was_sent && former.sa_handler == SIG_IGN) return;
  // The instruction faults again when this handler returns, and the default action follows.
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  if (was_sent)
    syscall(SYS_tgkill, static_cast<long>(ProcessId()), static_cast<long>(ThreadId()), signal);
}

void OnFault(int signal, siginfo_t* info, void* context) {
  const ErrnoKeeper keeper;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (info->si_code > 0 && is_reported(address)) {
    ReportAlone({.address = address, .access = AccessOf(context), .context = context});
  }
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == signal) GoOn(signal, info, context, former_actions[i]);
  }
}

}  // namespace

bool HandleFaults(bool (*is_ours)(uintptr_t address), void (*report)(const Fault& fault)) {
  if (write_report != nullptr) return true;
  is_reported = is_ours;
  write_report = report;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction& former = former_actions[i];
    if (sigaction(kSignals[i], nullptr, &former) != 0) return false;
    const bool has_function = (former.sa_flags & SA_SIGINFO) != 0 || former.sa_handler != SIG_DFL;
    struct sigaction action = {};
    action.sa_sigaction = &OnFault;
    // The handler runs on the stack that the former handler used. Without a former handler it uses
    // the alternate stack, which works also after a stack overflow.
    action.sa_flags =
        SA_SIGINFO |
        (has_function ? former.sa_flags & (SA_ONSTACK | SA_RESTART | SA_NODEFER) : SA_ONSTACK);
    if (sigaction(kSignals[i], &action, nullptr) != 0) return false;
  }
  return true;
}

}  // namespace tcmalloc
